use std::{collections::BTreeSet, fs, path::Path};

use super::{plural::OTHER, *};

fn keys(texts: &Texts) -> BTreeSet<&str> {
    texts.by_key.keys().copied().collect()
}

/// Texts about numbers: they have all forms of the first language.
fn counted() -> BTreeSet<&'static str> {
    let first = &ALL[0];
    let keys = first.by_key.keys();
    let bases = keys.filter_map(|key| key.strip_suffix(OTHER)?.strip_suffix('.'));
    bases
        .filter(|base| first.forms(base).len() == first.plurals.forms().count())
        .collect()
}

/// A text about a number is one key, whatever forms a language has.
fn without_forms(texts: &Texts) -> BTreeSet<&str> {
    let counted = counted();
    let keys = keys(texts).into_iter();
    let keys = keys.filter(|key| !key.starts_with("plural."));
    keys.map(|key| {
        let base = key.rsplit_once('.').map_or(key, |(base, _)| base);
        if counted.contains(base) { base } else { key }
    })
    .collect()
}

#[test]
fn every_language_has_the_same_keys() {
    assert!(counted().contains("files.count"));
    for texts in ALL.iter() {
        let language = texts.language;
        assert_eq!(without_forms(texts), without_forms(&ALL[0]), "{language}");
        for base in counted() {
            let forms = texts.forms(base).into_iter().map(|(form, _)| form);
            let wanted: Vec<_> = texts.plurals.forms().collect();
            assert_eq!(forms.collect::<Vec<_>>(), wanted, "{base} in {language}");
        }
        for (key, text) in &texts.by_key {
            // A form that the first language lacks says what the others do.
            let Some(there) = ALL[0].find(key) else {
                continue;
            };
            let (here, there) = (placeholders(text), placeholders(there));
            assert_eq!(here, there, "{key} in {language}");
        }
    }
}

#[test]
fn every_rule_of_a_language_can_be_read() {
    for texts in ALL.iter() {
        let rules = texts.by_key.keys().filter(|key| key.starts_with("plural."));
        let read = texts.plurals.forms().filter(|form| *form != OTHER);
        assert_eq!(rules.count(), read.count(), "{}", texts.language);
    }
}

#[test]
fn a_third_language_writes_numbers_and_their_words_by_its_file_alone() {
    let polish = Texts::from_file(
        "pl",
        "number.thousands = \u{a0}\n\
         number.decimal = ,\n\
         plural.one = n = 1\n\
         plural.few = n % 10 = 2..4 and n % 100 != 12..14\n\
         files.count.one = {n} plik\n\
         files.count.few = {n} pliki\n\
         files.count.other = {n} plików\n",
    );
    for (count, shown) in [(1, "1 plik"), (3, "3 pliki"), (5000, "5\u{a0}000 plików")] {
        assert_eq!(polish.count("files.count", count), shown);
    }
    assert_eq!(polish.decimal("0.50"), "0,50");
}

#[test]
fn only_the_list_of_languages_names_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
    let mut found = Vec::new();
    sources(&root, &mut found);
    for script in ["console.js", "run.js", "chart.js"] {
        let text = fs::read_to_string(root.join("assets").join(script)).unwrap();
        found.push((script.to_owned(), text));
    }
    for (path, text) in found {
        if path.ends_with("console/texts.rs") || path.ends_with("tests.rs") {
            continue;
        }
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (language, _) in LANGUAGES {
            let named = text.contains(&format!("\"{language}\""));
            assert!(!named, "{path} has a branch for `{language}`");
        }
    }
}

#[test]
fn every_file_of_texts_is_a_language() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/texts");
    let names = fs::read_dir(files).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".properties").map(str::to_owned)
    });
    let names: BTreeSet<String> = names.collect();
    let listed: BTreeSet<String> = LANGUAGES.map(|(language, _)| language.to_owned()).into();
    assert_eq!(names, listed);
}

#[test]
fn what_one_person_reads_says_nothing_of_tenants() {
    // Pages that are not there for one person.
    let of_many = ["groups.", "nodes.", "done.remove_member", "done.drain_node"];
    for texts in FOR_ONE_PERSON.iter() {
        for (key, text) in &texts.by_key {
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

/// Where something is missing and nobody has to do anything about it.
const NOTHING_TO_DO: [&str; 4] = [
    "cron.never",
    "limits.empty",
    "policy.same",
    "tool.no_arguments",
];

#[test]
fn every_empty_state_says_what_to_do_next() {
    // What stands where a list would, and texts with the names that such texts have.
    let instead = regex::Regex::new(
        r#"if [a-z_.]+\.is_empty\(\)[^%]*%\}<p[^>]*>\{\{ page\.t\("([a-z_.]+)"\)"#,
    )
    .unwrap();
    let paragraph = regex::Regex::new("<p[ >].*?</p>").unwrap();
    let named = regex::Regex::new(
        r#"page\.t\("([a-z_]+\.(?:no|none|never|nothing)(?:_[a-z_]+)?|[a-z_.]+[._]empty)"\)"#,
    )
    .unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
    let mut found = Vec::new();
    sources(&root, &mut found);
    let mut keys = BTreeSet::new();
    for (_, text) in found.iter().filter(|(path, _)| is_template(path)) {
        let paragraphs = paragraph.find_iter(text);
        let named = paragraphs.flat_map(|paragraph| named.captures_iter(paragraph.as_str()));
        let all = instead.captures_iter(text).chain(named);
        keys.extend(all.map(|found| found[1].to_owned()));
    }
    assert!(
        keys.contains("overview.no_runs") && keys.contains("runs.none_at_all"),
        "{keys:?}"
    );
    keys.retain(|key| !NOTHING_TO_DO.contains(&key.as_str()) && !key.ends_with("_next"));
    for texts in ALL.iter().chain(FOR_ONE_PERSON.iter()) {
        for key in &keys {
            let text = texts.get(key);
            // What is missing, and after it the next step: in the same text, or in one of its own.
            let has_second = [". ", ": ", "; "].iter().any(|end| text.contains(end));
            let has_next = texts.find(&format!("{key}_next")).is_some();
            assert!(
                has_second || has_next,
                "{key} in {}: {text}",
                texts.language
            );
        }
    }
}

#[test]
fn every_text_that_a_template_names_exists_and_none_is_marked_safe() {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
    sources(&root, &mut found);
    let named = regex::Regex::new(r#"\b(t|count|forms|fill)\("([a-z0-9_.]+)""#).unwrap();
    for (path, text) in found.iter().filter(|(path, _)| is_template(path)) {
        let is_marked = text.contains("|safe") || text.contains("| safe");
        assert!(!is_marked, "{path}");
        for call in named.captures_iter(text) {
            let key = call[2].to_owned();
            let wanted = match &call[1] {
                "count" | "forms" => vec![format!("{key}.one"), format!("{key}.other")],
                _ => vec![key],
            };
            for key in wanted {
                assert!(ALL[0].find(&key).is_some(), "`{key}` in {path}");
            }
        }
    }
}
