//! Error messages for agents that a Hub hosts: the reader has no terminal there, but may be the operator.

use crate::{
    conversation::ConversationError,
    model::{ModelError, ModelProblem, ResolveError},
    turn::TurnError,
};

/// The tenant whose agent works with these settings, if a Hub hosts it.
pub fn hosting_tenant(settings: &hermes_config::Settings) -> Option<&str> {
    hermes_mcp::connection::link::hosted_tenant(&settings.variables)
}

impl ConversationError {
    /// The error with advice for its reader: the operator of a tenant, or the user at the terminal.
    pub fn advise(&self, tenant: Option<&str>) -> String {
        let hosted = tenant.and_then(|tenant| match self {
            Self::NoModel(error) => advise_resolve_error(error, tenant),
            Self::Turn(TurnError::Model(error)) => advise_model_error(error, tenant),
            _ => None,
        });
        hosted.unwrap_or_else(|| self.to_string())
    }
}

fn choose_model_advice(tenant: &str) -> String {
    format!("`hermes tenant update {tenant} --model PROVIDER/MODEL` names one")
}

/// `key_source` is the name of a variable in backticks, or a description.
fn set_key_advice(tenant: &str, key_source: &str) -> String {
    let name = key_source
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    let is_name = |name: &&str| {
        name.chars()
            .all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c))
    };
    match name.filter(is_name) {
        Some(name) => format!("`hermes tenant env set {tenant} {name}` sets it"),
        None => format!("it is {key_source}, in the tenant's home"),
    }
}

fn advise_resolve_error(error: &ResolveError, tenant: &str) -> Option<String> {
    Some(match error {
        ResolveError::NoModel(none) => {
            let keys = match none.keys.as_slice() {
                [] => format!(
                    "`hermes tenant env set {tenant} NAME`, such as `OPENAI_API_KEY`, gives it the provider's key"
                ),
                keys => {
                    let names: Vec<_> = keys.iter().map(|(name, _)| format!("`{name}`")).collect();
                    format!("a key is set already: {}", names.join(", "))
                }
            };
            format!(
                "No model is chosen for the tenant `{tenant}`: {}; {keys}.",
                choose_model_advice(tenant)
            )
        }
        ResolveError::NoKey {
            provider,
            place,
            variable,
        } => {
            let first = variable.as_ref().map(|name| format!("`{name}`"));
            let place = first.as_deref().unwrap_or(place);
            format!(
                "`{provider}` needs a key: {}",
                set_key_advice(tenant, place)
            )
        }
        ResolveError::NoKeyOfEither {
            model,
            provider,
            place,
        } => format!(
            "`{model}` needs a key: `hermes tenant env set {tenant} NAME` sets {place} for {provider}, or \
             `OPENROUTER_API_KEY` for OpenRouter"
        ),
        ResolveError::UnclearProvider { model } => format!(
            "it is unclear who offers the model `{model}`: {} with its provider",
            choose_model_advice(tenant)
        ),
        ResolveError::UnknownProvider { name, known } => format!(
            "there is no provider `{name}`; known providers: {}. {}",
            known.join(", "),
            choose_model_advice(tenant)
        ),
        _ => return None,
    })
}

fn advise_model_error(error: &ModelError, tenant: &str) -> Option<String> {
    let provider = &error.provider;
    Some(match &error.problem {
        ModelProblem::KeyRefused {
            status,
            key,
            message,
        } => format!(
            "`{provider}`: the key was refused (HTTP {status}): {message}; {}",
            set_key_advice(tenant, key)
        ),
        ModelProblem::NotFound { model, message } => format!(
            "`{provider}`: HTTP 404: {message}; the model is `{model}`, {}",
            choose_model_advice(tenant)
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NoModel;

    fn no_model(keys: Vec<(&'static str, &'static str)>) -> ConversationError {
        ConversationError::NoModel(ResolveError::NoModel(Box::new(NoModel {
            provider: None,
            config_file: "/srv/hub/tenants/acme/home/config.yaml".into(),
            local_servers: None,
            keys,
        })))
    }

    #[test]
    fn a_tenant_without_a_model_is_told_what_its_operator_can_do() {
        let text = no_model(vec![]).advise(Some("acme"));
        assert!(
            text.contains("`hermes tenant update acme --model PROVIDER/MODEL`"),
            "{text}"
        );
        assert!(text.contains("`hermes tenant env set acme NAME`"), "{text}");
        for terminal in ["hermes model", "hermes chat", "ollama", "/srv"] {
            assert!(!text.contains(terminal), "{terminal}: {text}");
        }
        let text = no_model(vec![("OPENAI_API_KEY", "openai")]).advise(Some("acme"));
        assert!(text.contains("set already: `OPENAI_API_KEY`"), "{text}");
        let text = no_model(vec![]).advise(None);
        assert!(text.contains("`hermes model`"), "{text}");
    }

    #[test]
    fn a_tenants_key_is_set_by_its_operator() {
        let missing = ConversationError::NoModel(ResolveError::NoKey {
            provider: "openai".into(),
            place: "`OPENAI_API_KEY`".into(),
            variable: Some("OPENAI_API_KEY".into()),
        });
        let refused = ConversationError::Turn(TurnError::Model(ModelError {
            provider: "openai".into(),
            problem: ModelProblem::KeyRefused {
                status: 401,
                key: "`OPENAI_API_KEY`".into(),
                message: "no".into(),
            },
        }));
        for error in [missing, refused] {
            let text = error.advise(Some("acme"));
            let command = "`hermes tenant env set acme OPENAI_API_KEY` sets it";
            assert!(text.contains(command), "{text}");
            assert!(!error.advise(None).contains("tenant"), "{error}");
        }
    }
}
