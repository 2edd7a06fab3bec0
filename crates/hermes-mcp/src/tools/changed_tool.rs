//! What a person can do about a tool that is withheld, because it has changed since it was accepted.

use hermes_config::ServerName;

use crate::tools::names::ToolName;

/// Advice about one tool, for the person who may accept it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedToolAdvice {
    pub server: ServerName,
    pub tool: ToolName,
    /// Whose agent it is, if a Hub hosts it.
    pub tenant: Option<String>,
}

impl std::fmt::Display for ChangedToolAdvice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            server,
            tool,
            tenant,
        } = self;
        match tenant {
            Some(tenant) => write!(
                f,
                "`hermes tenant mcp {tenant} tools {server}` of its operator shows it, `hermes tenant mcp {tenant} accept \
                 {server} {tool}` accepts it"
            ),
            None => write!(
                f,
                "`hermes mcp tools {server} --diff` shows the difference, `hermes mcp tools {server} --approve {tool}` \
                 accepts it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_of_a_tenant_is_told_what_the_hub_offers() {
        let mut advice = ChangedToolAdvice {
            server: ServerName::new("shop"),
            tool: ToolName::new("add"),
            tenant: None,
        };
        let own = advice.to_string();
        assert!(
            own.contains("`hermes mcp tools shop --approve add`"),
            "{own}"
        );
        advice.tenant = Some("acme".into());
        let hosted = advice.to_string();
        assert!(
            hosted.contains("`hermes tenant mcp acme accept shop add`"),
            "{hosted}"
        );
        assert!(!hosted.contains("hermes mcp"), "{hosted}");
    }
}
