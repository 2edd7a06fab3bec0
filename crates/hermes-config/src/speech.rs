//! `stt`: what turns a voice message into text. The keys and variables are those of Hermes Agent 0.19.
//!
//! Nothing that people say leaves the machine because a key happens to be there for something else: a service is used
//! where `stt` names it, or where a variable is set that is for speech alone.

use std::time::Duration;

use serde_json::Value;

use crate::{Variables, fields::Fields, reference::ReferenceTemplate};

/// How long an engine may take, where the configuration does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);

/// What turns speech into text.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechSettings {
    /// `None` if nothing is set up, or it is switched off.
    pub engine: Option<SpeechEngine>,
    /// How long it may take for one message.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SpeechEngine {
    Service(SpeechService),
    Command(SpeechCommand),
}

/// A service with OpenAI's `POST {base_url}/audio/transcriptions`.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechService {
    /// What `stt.provider` calls it.
    pub provider: String,
    pub base_url: String,
    pub model: String,
    /// A code such as `de`; without one the service finds out.
    pub language: Option<String>,
    /// Variables that may hold the key; the first one that is set counts.
    pub key_variables: Vec<String>,
    /// The key, often a reference. It wins over the variables.
    pub api_key: Option<ReferenceTemplate>,
    /// Whether it refuses requests without a key.
    pub needs_key: bool,
}

/// A program that writes the text to its standard output, or to the file that it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeechCommand {
    /// The program and its arguments. `{path}` is the sound file.
    pub words: Vec<String>,
    /// For `{language}`.
    pub language: Option<String>,
    /// For `{model}`.
    pub model: Option<String>,
}

impl Default for SpeechSettings {
    fn default() -> Self {
        Self {
            engine: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// A service that is known by name.
struct KnownService {
    name: &'static str,
    base_url: &'static str,
    base_variable: &'static str,
    model: &'static str,
    model_variable: &'static str,
    /// Variables for the key. Those of `own_keys` are for speech alone.
    keys: &'static [&'static str],
    own_keys: &'static [&'static str],
}

const SERVICES: [KnownService; 3] = [
    KnownService {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        base_variable: "STT_OPENAI_BASE_URL",
        model: "whisper-1",
        model_variable: "STT_OPENAI_MODEL",
        keys: &["VOICE_TOOLS_OPENAI_KEY", "OPENAI_API_KEY"],
        own_keys: &["VOICE_TOOLS_OPENAI_KEY"],
    },
    KnownService {
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        base_variable: "GROQ_BASE_URL",
        model: "whisper-large-v3-turbo",
        model_variable: "STT_GROQ_MODEL",
        keys: &["GROQ_API_KEY"],
        own_keys: &[],
    },
    KnownService {
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        base_variable: "",
        model: "voxtral-mini-latest",
        model_variable: "STT_MISTRAL_MODEL",
        keys: &["MISTRAL_API_KEY"],
        own_keys: &[],
    },
];

const COMMAND_VARIABLE: &str = "HERMES_LOCAL_STT_COMMAND";
const LANGUAGE_VARIABLE: &str = "HERMES_LOCAL_STT_LANGUAGE";
/// Names of `stt.provider` that mean a program.
const COMMAND_NAMES: [&str; 3] = ["command", "local", "local_command"];

/// Reads `stt`.
pub(crate) fn parse_speech(root: &Fields) -> SpeechSettings {
    let section = root.section("stt");
    section.warn_mistyped(&[
        "enabled",
        "provider",
        "command",
        "base_url",
        "model",
        "api_key",
        "key_env",
        "language",
        "timeout",
        "local",
        "openai",
        "groq",
        "mistral",
        "providers",
    ]);
    let reader = SpeechReader {
        variables: root.variables(),
        section,
    };
    let is_enabled = reader.section.flag("enabled", true);
    SpeechSettings {
        engine: is_enabled.then(|| reader.engine()).flatten(),
        timeout: reader.section.seconds("timeout", DEFAULT_TIMEOUT),
    }
}

struct SpeechReader<'a> {
    section: Fields<'a>,
    variables: &'a Variables,
}

impl SpeechReader<'_> {
    fn engine(&self) -> Option<SpeechEngine> {
        let provider = text(&self.section, "provider").map(|name| name.to_lowercase());
        match provider.as_deref() {
            None | Some("auto") => self.first_set_up(),
            Some("none" | "off") => None,
            Some(name) if COMMAND_NAMES.contains(&name) => {
                let command = self.own_command();
                if command.is_none() {
                    self.section.warn(
                        "provider",
                        "needs a program: set `stt.command` to it and its arguments, with `{path}` for the sound file",
                    );
                }
                command
            }
            Some(name) => match SERVICES.iter().find(|service| service.name == name) {
                Some(service) => Some(self.service(service)),
                None => self.further(name),
            },
        }
    }

    /// The engine that is set up, where none is named.
    fn first_set_up(&self) -> Option<SpeechEngine> {
        let openai = &SERVICES[0];
        let is_addressed = self.section.is_set("base_url")
            || self.section.section(openai.name).is_set("base_url")
            || self.variable(openai.base_variable).is_some()
            || openai
                .own_keys
                .iter()
                .any(|name| self.variable(name).is_some());
        self.own_command()
            .or_else(|| is_addressed.then(|| self.service(openai)))
    }

    /// `stt.command`, or that of `stt.local`, or the variable.
    fn own_command(&self) -> Option<SpeechEngine> {
        let local = self.section.section("local");
        let places = [&self.section, &local];
        let written = places.into_iter().find_map(command_words);
        let words = written.or_else(|| {
            let line = self.variable(COMMAND_VARIABLE)?;
            split_words(line)
        })?;
        Some(SpeechEngine::Command(SpeechCommand {
            words,
            language: self.language(&local),
            model: text(&local, "model").or_else(|| text(&self.section, "model")),
        }))
    }

    /// An entry of `stt.providers`: a program, or a service with an address.
    fn further(&self, name: &str) -> Option<SpeechEngine> {
        let providers = self.section.section("providers");
        let entry = providers.section(name);
        if let Some(words) = command_words(&entry) {
            return Some(SpeechEngine::Command(SpeechCommand {
                words,
                language: self.language(&entry),
                model: text(&entry, "model"),
            }));
        }
        let Some(base_url) = text(&entry, "base_url") else {
            let known = SERVICES.map(|service| format!("`{}`", service.name));
            let message = format!(
                "is not known; use {}, `command`, or a name under `stt.providers` with `command` or `base_url`; voice \
                 messages are not transcribed",
                known.join(", ")
            );
            self.section.warn("provider", message);
            return None;
        };
        Some(SpeechEngine::Service(SpeechService {
            provider: name.to_owned(),
            base_url,
            model: text(&entry, "model").unwrap_or_else(|| SERVICES[0].model.to_owned()),
            language: self.language(&entry),
            key_variables: text(&entry, "key_env").into_iter().collect(),
            api_key: key(&entry),
            needs_key: false,
        }))
    }

    fn service(&self, known: &KnownService) -> SpeechEngine {
        let entry = self.section.section(known.name);
        let places = [&entry, &self.section];
        let first = |key: &str| places.into_iter().find_map(|place| text(place, key));
        let address = first("base_url").or_else(|| {
            let variable = Some(known.base_variable).filter(|name| !name.is_empty());
            variable
                .and_then(|name| self.variable(name))
                .map(str::to_owned)
        });
        let is_elsewhere = address
            .as_deref()
            .is_some_and(|address| address.trim_end_matches('/') != known.base_url);
        // A key goes to the service it was made for.
        let known_keys = if is_elsewhere {
            known.own_keys
        } else {
            known.keys
        };
        let key_variables = first("key_env")
            .into_iter()
            .chain(known_keys.iter().map(|name| (*name).to_owned()));
        SpeechEngine::Service(SpeechService {
            provider: known.name.to_owned(),
            base_url: address.unwrap_or_else(|| known.base_url.to_owned()),
            model: first("model")
                .or_else(|| self.variable(known.model_variable).map(str::to_owned))
                .unwrap_or_else(|| known.model.to_owned()),
            language: self.language(&entry),
            key_variables: key_variables.collect(),
            api_key: key(&entry).or_else(|| key(&self.section)),
            needs_key: !is_elsewhere,
        })
    }

    fn language(&self, entry: &Fields) -> Option<String> {
        text(entry, "language")
            .or_else(|| text(&self.section, "language"))
            .or_else(|| self.variable(LANGUAGE_VARIABLE).map(str::to_owned))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name).map(str::trim);
        value.filter(|value| !value.is_empty())
    }
}

/// A text that is not empty, with `${VAR}` filled in.
fn text(section: &Fields, key: &str) -> Option<String> {
    let text = section.filled_text(key)?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn key(section: &Fields) -> Option<ReferenceTemplate> {
    let text = section
        .text("api_key")
        .filter(|text| !text.trim().is_empty())?;
    let template = ReferenceTemplate::new(text);
    for variable in template.unset_variables(section.variables()) {
        let message = format!(
            "names the variable `{variable}`, which is not set; set it in the home's `.env`"
        );
        section.warn("api_key", message);
    }
    Some(template)
}

/// The words of `command`: a list, or a line.
fn command_words(section: &Fields) -> Option<Vec<String>> {
    let words = if let Value::String(line) = section.get("command")? {
        let words = split_words(&section.fill(line));
        if words.is_none() {
            section.warn(
                "command",
                "has a quotation mark that is not closed; it is ignored",
            );
        }
        words?
    } else {
        let words = section.texts_or_warn("command")?;
        words.iter().map(|word| section.fill(word)).collect()
    };
    (!words.is_empty()).then_some(words)
}

/// Splits a line at spaces, except within quotation marks. There is no shell. `None` if a quotation is not closed.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    (quote.is_none() && !words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn read(yaml: &str, variables: &[(&str, &str)]) -> (SpeechSettings, Vec<String>) {
        let variables = Variables::from_pairs(variables.iter().copied());
        let settings = Settings::parse(yaml, variables).unwrap();
        let warnings = settings.warnings.iter().map(|it| it.message.clone());
        (settings.speech, warnings.collect())
    }

    fn service(yaml: &str, variables: &[(&str, &str)]) -> SpeechService {
        match read(yaml, variables).0.engine {
            Some(SpeechEngine::Service(service)) => service,
            other => panic!("{other:?}"),
        }
    }

    fn command(yaml: &str, variables: &[(&str, &str)]) -> SpeechCommand {
        match read(yaml, variables).0.engine {
            Some(SpeechEngine::Command(command)) => command,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_used_that_was_not_set_up_for_speech() {
        let keys = [("OPENAI_API_KEY", "sk-1"), ("GROQ_API_KEY", "gsk-1")];
        let (settings, warnings) = read("", &keys);
        assert_eq!(settings, SpeechSettings::default());
        assert_eq!(warnings, Vec::<String>::new());
        let (off, _) = read("stt: {enabled: false, command: [w, '{path}']}", &keys);
        assert_eq!(off.engine, None);
    }

    #[test]
    fn a_named_service_has_the_names_of_the_original() {
        let openai = service(
            "stt: {provider: openai}",
            &[("STT_OPENAI_MODEL", "gpt-4o-transcribe")],
        );
        assert_eq!(openai.base_url, "https://api.openai.com/v1");
        assert_eq!(openai.model, "gpt-4o-transcribe");
        assert_eq!(
            openai.key_variables,
            ["VOICE_TOOLS_OPENAI_KEY", "OPENAI_API_KEY"]
        );
        assert!(openai.needs_key);
        let groq = service(
            "stt: {provider: groq, groq: {model: whisper-large-v3}, language: de}",
            &[],
        );
        assert_eq!(
            (
                groq.base_url.as_str(),
                groq.model.as_str(),
                groq.language.as_deref()
            ),
            (
                "https://api.groq.com/openai/v1",
                "whisper-large-v3",
                Some("de")
            )
        );
        let own = service("", &[("VOICE_TOOLS_OPENAI_KEY", "sk-2")]);
        assert_eq!(own.model, "whisper-1");
    }

    #[test]
    fn a_key_of_a_service_does_not_go_to_another_address() {
        let yaml =
            "stt: {base_url: 'http://127.0.0.1:8000/v1', model: small, api_key: '${STT_KEY}'}";
        let local = service(yaml, &[("OPENAI_API_KEY", "sk-1"), ("STT_KEY", "k")]);
        assert_eq!(local.base_url, "http://127.0.0.1:8000/v1");
        assert_eq!(local.model, "small");
        assert_eq!(local.key_variables, ["VOICE_TOOLS_OPENAI_KEY"]);
        assert!(local.api_key.is_some() && !local.needs_key);
        let yaml = "stt: {provider: mine, providers: {mine: {base_url: 'http://127.0.0.1:1/v1', key_env: MINE}}}";
        assert_eq!(service(yaml, &[]).key_variables, ["MINE"]);
    }

    #[test]
    fn a_command_is_a_list_or_a_line() {
        let list = command(
            "stt: {command: [whisper-cli, -f, '{path}'], language: de}",
            &[],
        );
        assert_eq!(list.words, ["whisper-cli", "-f", "{path}"]);
        assert_eq!(list.language.as_deref(), Some("de"));
        let line =
            "stt: {provider: local, command: 'sh -c \"whisper $0\" {path}', local: {model: base}}";
        let line = command(line, &[]);
        assert_eq!(line.words, ["sh", "-c", "whisper $0", "{path}"]);
        assert_eq!(line.model.as_deref(), Some("base"));
        let variable = command("", &[("HERMES_LOCAL_STT_COMMAND", "whisper {input_path}")]);
        assert_eq!(variable.words, ["whisper", "{input_path}"]);
        let further =
            "stt: {provider: x, providers: {x: {type: command, command: 'x {input_path}'}}}";
        assert_eq!(command(further, &[]).words, ["x", "{input_path}"]);
    }

    #[test]
    fn what_cannot_work_is_a_warning() {
        for (yaml, part) in [
            ("stt: {provider: local}", "needs a program"),
            ("stt: {provider: nonsense}", "is not known"),
            ("stt: {command: 'whisper \"{path}'}", "not closed"),
            ("stt: {provder: openai}", "did you mean `provider`"),
        ] {
            let (settings, warnings) = read(yaml, &[]);
            assert_eq!(settings.engine, None, "{yaml}");
            assert!(
                warnings.iter().any(|it| it.contains(part)),
                "{yaml}: {warnings:?}"
            );
        }
        assert_eq!(
            read("stt: {timeout: 5}", &[]).0.timeout,
            Duration::from_secs(5)
        );
    }
}
