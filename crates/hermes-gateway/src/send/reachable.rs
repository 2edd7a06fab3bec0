//! Which addresses the clients of a platform may reach: those of its API, and those that the API names, such as files and
//! WebSockets.

use hermes_agent::policy::PolicyHandle;
use hermes_config::PlatformSettings;
use url::Url;

use super::http::check_url;

/// The addresses that an account may reach: https, or http where that is allowed, and what the operator's policy lets
/// through at the moment.
#[derive(Debug, Clone)]
pub(crate) struct ReachableAddresses {
    allow_http: bool,
    policy: PolicyHandle,
}

impl ReachableAddresses {
    pub(crate) fn new(settings: &PlatformSettings, policy: &PolicyHandle) -> Self {
        Self {
            allow_http: settings.allow_http,
            policy: policy.clone(),
        }
    }

    /// The URL, if it may be reached; else why not.
    pub(crate) fn check(&self, address: &str) -> Result<Url, String> {
        let url = check_url(address, self.allow_http)?;
        let reached = self.policy.policy().egress().check(&url);
        reached.map_err(|denied| denied.to_string())?;
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use hermes_agent::policy::AgentPolicy;
    use hermes_config::Platform;
    use hermes_protocol::{Directives, Policy};
    use serde_json::json;

    use super::*;

    fn rules(egress: &serde_json::Value) -> (ReachableAddresses, PolicyHandle) {
        let policy = Policy::resolve(&json!({"egress": egress}), &Policy::unrestricted()).unwrap();
        let handle = PolicyHandle::new(AgentPolicy::from(Directives::new(policy)));
        let settings = PlatformSettings::default_of(Platform::Discord);
        (ReachableAddresses::new(&settings, &handle), handle)
    }

    #[test]
    fn what_a_platform_names_is_held_to_the_policy_as_its_own_address_is() {
        let (rules, handle) = rules(&json!({"allowHosts": ["discord.com", "cdn.discordapp.com"]}));
        assert!(rules.check("https://cdn.discordapp.com/a.png").is_ok());
        let denied = rules.check("https://media.example/a.png").unwrap_err();
        assert!(denied.contains("media.example"), "{denied}");
        assert!(denied.contains("egress.allowHosts"), "{denied}");
        assert!(rules.check("http://cdn.discordapp.com/a.png").is_err());
        // From the next use on.
        handle.set(AgentPolicy::default());
        assert!(rules.check("https://media.example/a.png").is_ok());
    }

    #[test]
    fn private_networks_are_out_of_reach_where_the_policy_says_so() {
        let (rules, _) = rules(&json!({"denyPrivateNetworks": true}));
        let denied = rules.check("https://10.0.0.5/a.png").unwrap_err();
        assert!(denied.contains("denyPrivateNetworks"), "{denied}");
        assert!(rules.check("https://files.slack.com/a").is_ok());
    }
}
