//! The links of every page, in groups. Where one person uses the Hub alone, they are about what is theirs.

use super::{pages::PAGES, request::PageRequest};

/// Links under one heading.
pub(super) struct NavigationGroup {
    /// None for the first ones.
    pub(super) heading: Option<&'static str>,
    pub(super) links: Vec<NavigationLink>,
}

pub(super) struct NavigationLink {
    pub(super) address: String,
    pub(super) text: &'static str,
    /// Pressed after `g`.
    pub(super) key: char,
    pub(super) is_current: bool,
}

/// Groups of pages, by their paths. A page with a link that is in none of them is in the last one.
const GROUPS: &[(Option<&str>, &[&str])] = &[
    (None, &["/", "/approvals", "/runs"]),
    (
        Some("nav.group.tenants"),
        &["/tenants", "/groups", "/cron", "/skills"],
    ),
    (Some("nav.group.hub"), &[]),
];

/// Pages about several tenants, which one person does not need.
const OF_MANY: &[&str] = &[
    "/runs", "/tenants", "/groups", "/cron", "/policy", "/tokens", "/nodes", "/skills",
];

/// The pages of the only tenant, with their texts and keys.
const OF_ONE: &[(&str, &str, char)] = &[
    ("/tenants/{tenant_id}/chat", "tabs.chat", 'h'),
    (
        "/tenants/{tenant_id}/conversations",
        "tabs.conversations",
        'v',
    ),
    ("/tenants/{tenant_id}/mcp", "tabs.mcp", 'm'),
    ("/tenants/{tenant_id}/cron", "tabs.cron", 'j'),
    ("/tenants/{tenant_id}/runs", "tabs.runs", 'r'),
    ("/tenants/{tenant_id}/platforms", "tabs.platforms", 'b'),
    ("/tenants/{tenant_id}/skills", "tabs.skills", 'k'),
    ("/tenants/{tenant_id}/files", "tabs.files", 'f'),
    ("/tenants/{tenant_id}", "tabs.tenant", 'y'),
];

/// The navigation for whoever asks: what they may not see is not in it.
pub(super) fn navigation(request: &PageRequest) -> Vec<NavigationGroup> {
    let mut groups: Vec<NavigationGroup> = GROUPS
        .iter()
        .map(|(heading, _)| NavigationGroup {
            heading: heading.map(|key| request.texts.find(key).unwrap_or(key)),
            links: hub_links(request, *heading),
        })
        .collect();
    if let Some(tenant) = request.only_tenant() {
        let yours = NavigationGroup {
            heading: Some(request.texts.find("nav.group.yours").unwrap_or_default()),
            links: links_of_one(request, tenant),
        };
        groups.insert(1, yours);
    }
    groups.retain(|group| !group.links.is_empty());
    groups
}

/// The group of a page, by its heading.
fn group_of(path: &str) -> Option<&'static str> {
    let named = GROUPS.iter().find(|(_, paths)| paths.contains(&path));
    named.or(GROUPS.last()).and_then(|(heading, _)| *heading)
}

fn hub_links(request: &PageRequest, heading: Option<&str>) -> Vec<NavigationLink> {
    let is_shared = request.only_tenant().is_none();
    let links = PAGES.iter().filter_map(|page| {
        let link = page.link.as_ref()?;
        let is_wanted = group_of(page.path) == heading
            && (is_shared || !OF_MANY.contains(&page.path))
            && request.may(page.operation);
        is_wanted.then(|| NavigationLink {
            address: page.path.to_owned(),
            text: request.texts.find(link.text).unwrap_or(link.text),
            key: link.key,
            is_current: is_below(&request.path, page.path),
        })
    });
    links.collect()
}

fn links_of_one(request: &PageRequest, tenant: &str) -> Vec<NavigationLink> {
    let links = OF_ONE.iter().filter_map(|(path, text, key)| {
        let page = PAGES.iter().find(|page| page.path == *path)?;
        let address = path.replace("{tenant_id}", tenant);
        request.may(page.operation).then(|| NavigationLink {
            text: request.texts.find(text).unwrap_or(text),
            key: *key,
            is_current: match *path {
                "/tenants/{tenant_id}" => request.path == address,
                _ => is_below(&request.path, &address),
            },
            address,
        })
    });
    links.collect()
}

fn is_below(path: &str, page: &str) -> bool {
    match path.strip_prefix(page) {
        Some(rest) if page != "/" => rest.is_empty() || rest.starts_with('/'),
        Some(rest) => rest.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_key_leads_to_two_pages() {
        let links = PAGES.iter().filter_map(|page| {
            let link = page.link.as_ref()?;
            Some((page.path, link.key))
        });
        let hub: Vec<(&str, char)> = links.collect();
        let own = OF_ONE.iter().map(|(path, _, key)| (*path, *key));
        let alone: Vec<(&str, char)> = hub
            .iter()
            .copied()
            .filter(|(path, _)| !OF_MANY.contains(path))
            .chain(own)
            .collect();
        for keys in [hub, alone] {
            let mut seen = BTreeSet::new();
            for (path, key) in keys {
                assert!(seen.insert(key), "`{key}` of {path} is taken");
            }
        }
    }

    #[test]
    fn a_link_is_current_on_its_page_and_below_it() {
        assert!(is_below("/tenants/acme", "/tenants"));
        assert!(!is_below("/tenants-x", "/tenants"));
        assert!(is_below("/", "/") && !is_below("/runs", "/"));
    }
}
