//! Writing a choice: the `model` of `config.yaml`, with everything else in the file as it was.

use hermes_agent::model::{ModelOverrides, ResolveContext, ResolveError, resolve_model};
use hermes_config::{ConfigFile, Settings};
use serde_json::{Map, Value, json};

use super::show;
use crate::{cli::ModelArgs, context::Context, failure::Failure};

/// Keys that belong to one provider or address.
const LOCATION_KEYS: [&str; 7] = [
    "base_url",
    "api",
    "url",
    "key_env",
    "api_key_env",
    "api_key",
    "api_mode",
];

/// A model and where it is.
#[derive(Debug, Clone)]
pub(super) struct ModelToWrite {
    pub(super) name: String,
    pub(super) location: ModelLocation,
}

/// Where a chosen model is.
#[derive(Debug, Clone)]
pub(super) enum ModelLocation {
    /// Where the present one is, or wherever its name points to.
    Unchanged,
    /// At a provider.
    Provider(String),
    /// At an address.
    Address {
        url: String,
        /// The variable that holds its key.
        key_env: Option<String>,
    },
}

pub(super) fn run(context: &Context, name: &str, args: &ModelArgs) -> Result<(), Failure> {
    let location = match (&args.provider, &args.base_url) {
        (Some(provider), _) => ModelLocation::Provider(provider.clone()),
        (None, Some(url)) => ModelLocation::Address {
            url: url.clone(),
            key_env: None,
        },
        (None, None) => ModelLocation::Unchanged,
    };
    let name = name.trim().to_owned();
    if name.is_empty() {
        return Err(Failure::usage("a model needs a name"));
    }
    write_choice(context, &ModelToWrite { name, location })
}

/// Writes the choice and says what it leads to. One that leads nowhere is not written.
pub(super) fn write_choice(context: &Context, choice: &ModelToWrite) -> Result<(), Failure> {
    let mut file = ConfigFile::open(&context.home)?;
    let value = changed_section(file.get(&["model"]), choice);
    file.change(&["model"], &value);
    let variables = context.written_settings()?.variables;
    let settings = Settings::parse(&file.text(), variables)?;
    let selection = context.block_on(async {
        let resolve_context = ResolveContext::new(&context.home, &settings);
        Ok(resolve_model(&resolve_context, &ModelOverrides::default()).await)
    })?;
    let output = context.output;
    let problem = match &selection {
        Err(error @ (ResolveError::NoKey { .. } | ResolveError::Reference { .. })) => {
            Some(error.to_string())
        }
        Err(error) => return Err(Failure::usage(error.to_string())),
        Ok(_) => None,
    };
    context.home.create()?;
    file.save()?;
    let name = &choice.name;
    if let Ok(selection) = selection {
        let endpoint = &selection.endpoint;
        output.note(format!(
            "`{name}` from {} ({}) is the model from now on.",
            endpoint.provider,
            endpoint.address()
        ));
        output.json(show::present_json(&selection));
    } else {
        output.note(format!("`{name}` is the model from now on."));
        if let Some(problem) = &problem {
            output.warning(problem);
        }
        output.json(json!({"model": name, "problem": problem}));
    }
    Ok(())
}

/// What `model` is to say.
fn changed_section(present: Option<&Value>, choice: &ModelToWrite) -> Value {
    let mut map = match (present, &choice.location) {
        (Some(Value::Object(map)), _) => map.clone(),
        (_, ModelLocation::Unchanged) => return Value::String(choice.name.clone()),
        _ => Map::new(),
    };
    let name_key = if map.contains_key("model") && !map.contains_key("default") {
        "model"
    } else {
        "default"
    };
    if map.get(name_key) != Some(&Value::from(choice.name.clone())) {
        // It was that of the other model.
        map.remove("context_length");
    }
    map.insert(name_key.into(), choice.name.clone().into());
    match &choice.location {
        ModelLocation::Unchanged => {}
        ModelLocation::Provider(provider) => {
            let present = map.get("provider").and_then(Value::as_str);
            if !present.is_some_and(|present| present.eq_ignore_ascii_case(provider)) {
                clear_location(&mut map);
            }
            map.insert("provider".into(), provider.clone().into());
        }
        ModelLocation::Address { url, key_env } => {
            if map.get("base_url").and_then(Value::as_str) != Some(url) || key_env.is_some() {
                clear_location(&mut map);
            }
            map.insert("provider".into(), "custom".into());
            map.insert("base_url".into(), url.clone().into());
            if let Some(variable) = key_env {
                map.insert("key_env".into(), variable.clone().into());
            }
        }
    }
    Value::Object(map)
}

fn clear_location(map: &mut Map<String, Value>) {
    // Not `swap_remove`: the order is the user's.
    map.retain(|key, _| !LOCATION_KEYS.contains(&key.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(name: &str, location: ModelLocation) -> ModelToWrite {
        ModelToWrite {
            name: name.into(),
            location,
        }
    }

    #[test]
    fn a_name_alone_stays_a_name_and_a_mapping_keeps_its_provider() {
        let new = choice("new", ModelLocation::Unchanged);
        assert_eq!(changed_section(None, &new), json!("new"));
        assert_eq!(changed_section(Some(&json!("old")), &new), json!("new"));
        let before =
            json!({"provider": "team", "model": "old", "context_length": 5, "autodetect": false});
        assert_eq!(
            changed_section(Some(&before), &new),
            json!({"provider": "team", "model": "new", "autodetect": false})
        );
    }

    #[test]
    fn another_provider_does_not_inherit_address_and_key() {
        let before = json!({
            "default": "old", "provider": "custom", "base_url": "http://a", "api_key": "k",
            "api_mode": "chat_completions", "extra_body": {"x": 1},
        });
        assert_eq!(
            changed_section(
                Some(&before),
                &choice("new", ModelLocation::Provider("openai".into()))
            ),
            json!({"default": "new", "provider": "openai", "extra_body": {"x": 1}})
        );
        let address = ModelLocation::Address {
            url: "http://b".into(),
            key_env: None,
        };
        assert_eq!(
            changed_section(Some(&before), &choice("old", address)),
            json!({"default": "old", "provider": "custom", "extra_body": {"x": 1}, "base_url": "http://b"})
        );
    }

    #[test]
    fn the_same_provider_keeps_its_address_and_key() {
        let before = json!({"default": "old", "provider": "openai", "api_key": "${K}"});
        assert_eq!(
            changed_section(
                Some(&before),
                &choice("new", ModelLocation::Provider("OpenAI".into()))
            ),
            json!({"default": "new", "provider": "OpenAI", "api_key": "${K}"})
        );
    }
}
