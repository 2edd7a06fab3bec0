//! The sub-navigation of a tenant: a link for each of its pages that whoever is signed in may see.
//!
//! The layout shows it on every page below `/tenants/{tenant_id}`: a page does nothing for it. A new page of a tenant gets
//! a line in [`TABS`].

use super::{pages::PAGES, request::PageRequest};

/// The pages of a tenant in the order of the links, with the keys of their texts.
const TABS: &[(&str, &str)] = &[
    ("/tenants/{tenant_id}", "tabs.tenant"),
    ("/tenants/{tenant_id}/runs", "tabs.runs"),
    ("/tenants/{tenant_id}/chat", "tabs.chat"),
    ("/tenants/{tenant_id}/conversations", "tabs.conversations"),
    ("/tenants/{tenant_id}/mcp", "tabs.mcp"),
    ("/tenants/{tenant_id}/platforms", "tabs.platforms"),
    ("/tenants/{tenant_id}/cron", "tabs.cron"),
    ("/tenants/{tenant_id}/skills", "tabs.skills"),
    ("/tenants/{tenant_id}/files", "tabs.files"),
    ("/tenants/{tenant_id}/env", "tabs.env"),
    ("/tenants/{tenant_id}/character", "tabs.character"),
    ("/tenants/{tenant_id}/limits", "tabs.limits"),
];

/// The links of one tenant.
pub(super) struct TenantTabs {
    pub(super) tenant: String,
    pub(super) links: Vec<TenantTab>,
}

pub(super) struct TenantTab {
    pub(super) address: String,
    pub(super) text: &'static str,
    /// The first one is the tenant itself, by its name.
    pub(super) is_first: bool,
    pub(super) is_current: bool,
}

impl TenantTabs {
    /// The links for a page of a tenant; none for another page.
    pub(super) fn new(request: &PageRequest) -> Option<Self> {
        let tenant = request.path_value("tenant_id");
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if tenant.is_empty() || !tenant.bytes().all(is_plain) {
            return None;
        }
        let links = TABS.iter().filter_map(|(path, text)| {
            let page = PAGES.iter().find(|page| page.path == *path)?;
            request.may(page.operation).then(|| TenantTab {
                address: path.replace("{tenant_id}", tenant),
                text: request.texts.find(text).unwrap_or(text),
                is_first: *path == TABS[0].0,
                is_current: is_current(path, &request.pattern),
            })
        });
        Some(Self {
            tenant: tenant.to_owned(),
            links: links.collect(),
        })
    }
}

/// Whether a page is that of a link, or one below it.
fn is_current(link: &str, page: &str) -> bool {
    match page.strip_prefix(link) {
        Some("") => true,
        Some(rest) => rest.starts_with('/') && link != TABS[0].0,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_link_is_the_page_or_the_one_above_it() {
        let runs = "/tenants/{tenant_id}/runs";
        assert!(is_current(runs, runs));
        assert!(is_current(runs, "/tenants/{tenant_id}/runs/{run_id}"));
        assert!(!is_current(runs, "/tenants/{tenant_id}/runs-x"));
        assert!(!is_current("/tenants/{tenant_id}", runs));
        assert!(is_current("/tenants/{tenant_id}", "/tenants/{tenant_id}"));
    }
}
