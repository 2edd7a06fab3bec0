//! The console's texts: one file per language, the same keys in each. `yours.KEY` is what `KEY` says to somebody who uses
//! the Hub alone: it speaks of what is theirs, and of no tenants.

use std::{collections::HashMap, sync::LazyLock};

use http::{HeaderMap, header};

/// The texts of a language.
#[derive(Debug)]
pub(crate) struct Texts {
    /// As in `lang`.
    pub(super) language: &'static str,
    texts: HashMap<&'static str, &'static str>,
}

/// The first one is taken where none is asked for.
const LANGUAGES: [(&str, &str); 2] = [
    ("en", include_str!("texts/en.properties")),
    ("de", include_str!("texts/de.properties")),
];

/// What stands before the keys of texts for one person.
const YOURS: &str = "yours.";

static ALL: LazyLock<Vec<Texts>> = LazyLock::new(|| {
    let all = LANGUAGES.iter().map(|(language, file)| Texts {
        language,
        texts: parse(file).collect(),
    });
    all.collect()
});

/// The same languages for one person.
static FOR_ONE_PERSON: LazyLock<Vec<Texts>> = LazyLock::new(|| {
    let all = ALL.iter().map(|texts| {
        let mut own = texts.texts.clone();
        for (key, text) in &texts.texts {
            if let Some(key) = key.strip_prefix(YOURS) {
                own.insert(key, text);
            }
        }
        Texts {
            language: texts.language,
            texts: own,
        }
    });
    all.collect()
});

/// Lines `key = text`; `#` begins a comment.
fn parse(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(key, text)| (key.trim(), text.trim()))
}

impl Texts {
    /// All languages that there are.
    pub(super) fn all() -> &'static [Self] {
        &ALL
    }

    /// The same texts for somebody who uses the Hub alone.
    pub(super) fn for_one_person(&self) -> &'static Self {
        let mut all = FOR_ONE_PERSON.iter();
        let own = all.find(|texts| texts.language == self.language);
        own.unwrap_or(&FOR_ONE_PERSON[0])
    }

    pub(super) fn in_language(language: &str) -> Option<&'static Self> {
        ALL.iter().find(|texts| texts.language == language)
    }

    /// In the language that the reader prefers.
    pub(super) fn for_reader(headers: &HeaderMap) -> &'static Self {
        let accepted = headers.get(header::ACCEPT_LANGUAGE);
        let accepted = accepted.and_then(|value| value.to_str().ok());
        Self::preferred(accepted.unwrap_or_default())
    }

    fn preferred(accepted: &str) -> &'static Self {
        let mut wanted: Vec<(f32, &str)> = accepted
            .split(',')
            .filter_map(|part| {
                let (tag, weight) = part.split_once(';').unwrap_or((part, "q=1"));
                let weight = weight.trim().strip_prefix("q=")?.parse().ok()?;
                Some((weight, tag.trim().split('-').next()?))
            })
            .collect();
        wanted.sort_by(|one, other| other.0.total_cmp(&one.0));
        let found = wanted.iter().find_map(|(_, tag)| {
            let mut all = ALL.iter();
            all.find(|texts| texts.language.eq_ignore_ascii_case(tag))
        });
        found.unwrap_or(&ALL[0])
    }

    /// A text; its key where there is none, which a test excludes for all keys in templates.
    pub(super) fn get<'a>(&'a self, key: &'a str) -> &'a str {
        self.texts.get(key).copied().unwrap_or(key)
    }

    pub(super) fn find(&self, key: &str) -> Option<&'static str> {
        self.texts.get(key).copied()
    }

    /// A text about a number: `key.one` or `key.other`, with `{n}`.
    pub(super) fn count(&self, key: &str, n: u64) -> String {
        let form = if n == 1 { "one" } else { "other" };
        let key = format!("{key}.{form}");
        self.get(&key).replace("{n}", &n.to_string())
    }

    /// A text with `{name}`.
    pub(super) fn fill(&self, key: &str, name: &str) -> String {
        self.get(key).replace("{name}", name)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn keys(texts: &Texts) -> BTreeSet<&str> {
        texts.texts.keys().copied().collect()
    }

    #[test]
    fn every_language_has_the_same_keys() {
        for texts in ALL.iter() {
            assert_eq!(keys(texts), keys(&ALL[0]), "{}", texts.language);
            for (key, text) in &texts.texts {
                let (here, there) = (placeholders(text), placeholders(ALL[0].get(key)));
                assert_eq!(here, there, "{key} in {}", texts.language);
            }
        }
    }

    #[test]
    fn what_one_person_reads_says_nothing_of_tenants() {
        // Pages that are not there for one person.
        let of_many = ["groups.", "nodes.", "done.remove_member", "done.drain_node"];
        for texts in FOR_ONE_PERSON.iter() {
            for (key, text) in &texts.texts {
                let yours = format!("{YOURS}{key}");
                let is_of_many = of_many.iter().any(|prefix| key.starts_with(prefix));
                let words = text.to_lowercase();
                let says_it = words.contains("tenant") || words.contains("mandant");
                assert!(
                    !says_it || is_of_many,
                    "{key} in {}: {text}",
                    texts.language
                );
                if let Some(key) = key.strip_prefix(YOURS) {
                    assert!(texts.find(key).is_some(), "`{yours}` is of no text");
                }
            }
        }
    }

    fn placeholders(text: &str) -> Vec<&str> {
        let mut found: Vec<_> = ["{n}", "{name}", "{bad}", "{all}"]
            .into_iter()
            .filter(|placeholder| text.contains(placeholder))
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn the_reader_gets_the_language_that_is_asked_for_most() {
        for (accepted, language) in [
            ("", "en"),
            ("de", "de"),
            ("de-AT,en;q=0.5", "de"),
            ("fr,en;q=0.4,de;q=0.7", "de"),
            ("x;q=,,;", "en"),
        ] {
            assert_eq!(Texts::preferred(accepted).language, language, "{accepted}");
        }
    }

    /// All templates and page files.
    fn sources(directory: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "html" || extension == "rs")
            {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text));
            }
        }
    }

    fn is_template(path: &str) -> bool {
        Path::new(path).extension().is_some_and(|end| end == "html")
    }

    /// Names and units, which are the same in every language.
    const UNTRANSLATED: [&str; 4] = ["Hermes", "ms", "s", "g"];

    /// The words of a template that are not from the table.
    fn own_words(template: &str) -> Vec<String> {
        let cut = |pattern: &str, text: &str| {
            let pattern = regex::Regex::new(pattern).unwrap();
            pattern.replace_all(text, " \u{1} ").into_owned()
        };
        let mut found = Vec::new();
        let text = cut(r"(?s)\{#.*?#\}|<!--.*?-->|<!doctype[^>]*>", template);
        let attributes =
            regex::Regex::new(r#"(?:aria-label|title|alt)="([^"{]*[A-Za-z][^"{]*)""#).unwrap();
        found.extend(
            attributes
                .captures_iter(&text)
                .map(|found| found[1].to_owned()),
        );
        // What is written in code, or stands in a field as an example, is not a sentence.
        let text = cut(
            r"(?s)<code>[^<{]*</code>|<textarea[^>]*>[^<{]*</textarea>",
            &text,
        );
        let text = cut(r"(?s)\{\{.*?\}\}|\{%.*?%\}", &text);
        let text = cut(r"(?s)<[^>]*>|&[a-z]+;", &text);
        let words = regex::Regex::new(r"\p{L}+").unwrap();
        let words = words.find_iter(&text).map(|word| word.as_str());
        found.extend(
            words
                .filter(|word| !UNTRANSLATED.contains(word))
                .map(str::to_owned),
        );
        found
    }

    #[test]
    fn no_template_has_words_of_its_own() {
        assert_eq!(
            own_words("<p title=\"Help\">Hermes {{ x }} again</p>"),
            ["Help", "again"]
        );
        let mut found = Vec::new();
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console"),
            &mut found,
        );
        for (path, text) in found {
            if is_template(&path) {
                assert_eq!(own_words(&text), Vec::<String>::new(), "{path}");
            }
        }
    }

    #[test]
    fn what_the_console_says_itself_is_in_every_language() {
        // A reason stands beside what only the console says; the rest is for logs and programs.
        let said = regex::Regex::new(
            r#"(?s)Problem::(?:new\([^,]+,|invalid\(|denied\(|not_found\(|precondition\()\s*(?:format!\(\s*)?"([^"]*)"(?:,[^;]*?)?\)\s*(?:\.with_reason\("([a-z_]+)"\))?"#,
        )
        .unwrap();
        // Forms of the console do not send these.
        let of_programs = ["there is no such operation", "must be a JSON schema"];
        let mut found = Vec::new();
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console"),
            &mut found,
        );
        for (path, text) in found.iter().filter(|(path, _)| !is_template(path)) {
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for problem in said.captures_iter(text) {
                let message = &problem[1];
                if of_programs.iter().any(|end| message.ends_with(end)) {
                    continue;
                }
                let reason = problem.get(2).map_or("", |reason| reason.as_str());
                let key = format!("problem.reason.{reason}");
                assert!(ALL[0].find(&key).is_some(), "`{message}` in {path}");
            }
        }
    }

    #[test]
    fn every_text_that_a_template_names_exists_and_none_is_marked_safe() {
        let mut found = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
        sources(&root, &mut found);
        let named = regex::Regex::new(r#"\b(t|count|fill)\("([a-z0-9_.]+)""#).unwrap();
        for (path, text) in found.iter().filter(|(path, _)| is_template(path)) {
            let is_marked = text.contains("|safe") || text.contains("| safe");
            assert!(!is_marked, "{path}");
            for call in named.captures_iter(text) {
                let key = call[2].to_owned();
                let wanted = match &call[1] {
                    "count" => vec![format!("{key}.one"), format!("{key}.other")],
                    _ => vec![key],
                };
                for key in wanted {
                    assert!(ALL[0].find(&key).is_some(), "`{key}` in {path}");
                }
            }
        }
    }
}
