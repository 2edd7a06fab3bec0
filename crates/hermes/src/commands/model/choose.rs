//! Writing a choice: the `model` of `config.yaml`, with everything else in the file as it was.

use hermes_agent::model::{ResolveError, Surroundings, Wanted, resolve};
use hermes_config::{ConfigFile, Settings};
use serde_json::{Map, Value, json};

use super::show;
use crate::{cli::ModelArgs, context::Context, failure::Failure};

/// Keys that belong to one provider or address.
const OF_THE_PLACE: [&str; 7] = [
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
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) place: Place,
}

/// Where a chosen model is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Where the present one is, or wherever its name points to.
    AsBefore,
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
    let place = match (&args.provider, &args.base_url) {
        (Some(provider), _) => Place::Provider(provider.clone()),
        (None, Some(url)) => Place::Address {
            url: url.clone(),
            key_env: None,
        },
        (None, None) => Place::AsBefore,
    };
    let name = name.trim().to_owned();
    if name.is_empty() {
        return Err(Failure::usage("a model needs a name"));
    }
    write(context, &Choice { name, place })
}

/// Writes the choice and says what it leads to. One that leads nowhere is not written.
pub(super) fn write(context: &Context, choice: &Choice) -> Result<(), Failure> {
    let mut file = ConfigFile::open(&context.home)?;
    let value = changed(file.get(&["model"]), choice);
    file.change(&["model"], &value);
    let variables = context.written_settings()?.variables;
    let settings = Settings::parse(&file.text(), variables)?;
    let found = context.block_on(async {
        let around = Surroundings::new(&context.home, &settings);
        Ok(resolve(&around, &Wanted::default()).await)
    })?;
    let output = context.output;
    let problem = match &found {
        Err(error @ (ResolveError::NoKey { .. } | ResolveError::Reference { .. })) => {
            Some(error.to_string())
        }
        Err(error) => return Err(Failure::usage(error.to_string())),
        Ok(_) => None,
    };
    context.home.create()?;
    file.save()?;
    let name = &choice.name;
    if let Ok(found) = found {
        let endpoint = &found.endpoint;
        output.note(format!(
            "`{name}` from {} ({}) is the model from now on.",
            endpoint.provider,
            endpoint.address()
        ));
        output.json(show::present_json(&found));
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
fn changed(present: Option<&Value>, choice: &Choice) -> Value {
    let mut map = match (present, &choice.place) {
        (Some(Value::Object(map)), _) => map.clone(),
        (_, Place::AsBefore) => return Value::String(choice.name.clone()),
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
    match &choice.place {
        Place::AsBefore => {}
        Place::Provider(provider) => {
            let present = map.get("provider").and_then(Value::as_str);
            if !present.is_some_and(|present| present.eq_ignore_ascii_case(provider)) {
                clear_place(&mut map);
            }
            map.insert("provider".into(), provider.clone().into());
        }
        Place::Address { url, key_env } => {
            if map.get("base_url").and_then(Value::as_str) != Some(url) || key_env.is_some() {
                clear_place(&mut map);
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

fn clear_place(map: &mut Map<String, Value>) {
    // Not `swap_remove`: the order is the user's.
    map.retain(|key, _| !OF_THE_PLACE.contains(&key.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(name: &str, place: Place) -> Choice {
        Choice {
            name: name.into(),
            place,
        }
    }

    #[test]
    fn a_name_alone_stays_a_name_and_a_mapping_keeps_its_provider() {
        let new = choice("new", Place::AsBefore);
        assert_eq!(changed(None, &new), json!("new"));
        assert_eq!(changed(Some(&json!("old")), &new), json!("new"));
        let before =
            json!({"provider": "team", "model": "old", "context_length": 5, "autodetect": false});
        assert_eq!(
            changed(Some(&before), &new),
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
            changed(
                Some(&before),
                &choice("new", Place::Provider("openai".into()))
            ),
            json!({"default": "new", "provider": "openai", "extra_body": {"x": 1}})
        );
        let address = Place::Address {
            url: "http://b".into(),
            key_env: None,
        };
        assert_eq!(
            changed(Some(&before), &choice("old", address)),
            json!({"default": "old", "provider": "custom", "extra_body": {"x": 1}, "base_url": "http://b"})
        );
    }

    #[test]
    fn the_same_provider_keeps_its_address_and_key() {
        let before = json!({"default": "old", "provider": "openai", "api_key": "${K}"});
        assert_eq!(
            changed(
                Some(&before),
                &choice("new", Place::Provider("OpenAI".into()))
            ),
            json!({"default": "new", "provider": "OpenAI", "api_key": "${K}"})
        );
    }
}
