//! Completion after an `@`.

use hermes_mcp::Host;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MentionCandidate {
    /// The text to insert: `@server:uri`. A template contains its `{placeholders}`.
    pub text: String,
    pub description: String,
}

/// The resources and templates that match the typed text, `@` included, in the servers' order.
pub fn complete_mention(host: &Host, typed: &str) -> Vec<MentionCandidate> {
    let typed = typed.to_lowercase();
    let mut candidates = Vec::new();
    for (server, catalog) in host.offered_catalogs() {
        let resources = catalog.resources.iter().map(|resource| {
            let name = resource.title.as_ref().unwrap_or(&resource.name);
            (&resource.uri, name, resource.description.as_ref())
        });
        let templates = catalog.templates.iter().map(|template| {
            let name = template.title.as_ref().unwrap_or(&template.name);
            (&template.uri_template, name, template.description.as_ref())
        });
        let candidate =
            |(uri, name, description): (&String, &String, Option<&String>)| MentionCandidate {
                text: format!("@{server}:{uri}"),
                description: description.unwrap_or(name).clone(),
            };
        candidates.extend(resources.chain(templates).map(candidate));
    }
    candidates.retain(|candidate| candidate.text.to_lowercase().starts_with(&typed));
    candidates
}
