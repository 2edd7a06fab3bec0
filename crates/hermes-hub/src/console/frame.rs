//! What every page has around it: title, navigation, messages, and the texts in the reader's language.

use super::{
    LIVE_PATH, assets,
    navigation::{NavigationGroup, navigation},
    request::PageRequest,
    tenant_tabs::TenantTabs,
    texts::Texts,
    view::{bytes, duration, isolate_direction, plain_time},
};
use crate::api_types::Time;

/// A number as templates hand it over: as it is, or behind references.
pub(super) trait Counted {
    fn number(&self) -> u64;
}

impl Counted for u64 {
    fn number(&self) -> u64 {
        *self
    }
}

impl Counted for u32 {
    fn number(&self) -> u64 {
        u64::from(*self)
    }
}

impl Counted for usize {
    fn number(&self) -> u64 {
        u64::try_from(*self).unwrap_or(u64::MAX)
    }
}

impl<T: Counted + ?Sized> Counted for &T {
    fn number(&self) -> u64 {
        (**self).number()
    }
}

/// The part of a page that is not its content. Templates call it `page`.
pub(super) struct Frame {
    pub(super) texts: &'static Texts,
    pub(super) title: String,
    pub(super) csrf: String,
    /// The present address, for forms to return to.
    pub(super) address: String,
    pub(super) navigation: Vec<NavigationGroup>,
    pub(super) who: String,
    /// What was done just before, if this page follows a form.
    pub(super) done: Option<String>,
    pub(super) request_id: String,
    /// Where the page hears that something has changed, for those who may.
    pub(super) live: Option<String>,
    /// One person uses the Hub alone: nothing is said of several tenants.
    pub(super) is_for_one: bool,
    /// For one person alone: where others could be added.
    pub(super) may_add_others: bool,
    /// The pages of the tenant, on a page of one.
    pub(super) tabs: Option<TenantTabs>,
}

impl Frame {
    /// The frame of a page with a title in the reader's language.
    pub(super) fn new(request: &PageRequest, title: impl Into<String>) -> Self {
        let texts = request.texts;
        let done = request.query("done").and_then(|operation| {
            let key = format!("done.{operation}");
            texts
                .find(&key)
                .or_else(|| texts.find("done"))
                .map(str::to_owned)
        });
        Self {
            texts,
            title: title.into(),
            csrf: request.csrf.0.clone(),
            address: request.address_with("done", ""),
            navigation: navigation(request),
            who: request.principal().name.clone(),
            done,
            request_id: request.id.0.to_string(),
            live: request.may("watch_events").then(|| live_address(request)),
            is_for_one: request.only_tenant().is_some(),
            may_add_others: request.only_tenant().is_some() && request.may("create_tenant"),
            tabs: TenantTabs::new(request),
        }
    }

    pub(super) fn t<'a>(&'a self, key: &'a str) -> &'a str {
        self.texts.get(key)
    }

    pub(super) fn count(&self, key: &str, n: impl Counted) -> String {
        self.texts.count(key, n.number())
    }

    /// A sentence with a name in it.
    pub(super) fn fill(&self, key: &str, name: impl AsRef<str>) -> String {
        self.texts.fill(key, &isolate_direction(name.as_ref()))
    }

    pub(super) fn plain_time(&self, time: &Time) -> String {
        plain_time(*time)
    }

    pub(super) fn bytes(&self, number: impl Counted) -> String {
        bytes(self.texts, number.number())
    }

    /// A number with decimals, as the language writes them.
    pub(super) fn decimal(&self, number: impl AsRef<str>) -> String {
        self.texts.decimal(number.as_ref())
    }

    /// A number with its thousands apart.
    pub(super) fn number(&self, number: impl Counted) -> String {
        self.texts.number(number.number())
    }

    /// A time that something took, in milliseconds.
    pub(super) fn duration(&self, millis: impl Counted) -> String {
        duration(self.texts, millis.number())
    }

    /// The forms of a text about a number, for scripts.
    pub(super) fn forms(&self, key: &str) -> Vec<(&'static str, &'static str)> {
        self.texts.forms(key)
    }

    pub(super) fn asset(&self, name: &str) -> &'static str {
        assets::address(name)
    }

    /// A word of the API in the reader's language, as `state.ready`; the word itself where there is no text.
    pub(super) fn word(&self, kind: &str, word: &(impl std::fmt::Display + ?Sized)) -> String {
        let word = word.to_string();
        let text = self.texts.find(&format!("{kind}.{word}"));
        text.map_or(word, str::to_owned)
    }

    /// Other languages: as in `lang`, and by their own names.
    pub(super) fn other_languages(&self) -> Vec<(&'static str, &'static str)> {
        other_languages(self.texts)
    }

    /// For a form: sent twice, it is done once.
    pub(super) fn once(&self) -> String {
        hermes_config::random::random_digits(24)
    }
}

/// The languages besides the one that is read.
pub(super) fn other_languages(texts: &Texts) -> Vec<(&'static str, &'static str)> {
    let others = Texts::all().iter();
    let others = others.filter(|other| other.language != texts.language);
    others
        .map(|other| (other.language, other.find("language").unwrap_or_default()))
        .collect()
}

/// The stream of a page of one tenant has only what happens to it.
fn live_address(request: &PageRequest) -> String {
    match request.path_value("tenant_id") {
        "" => LIVE_PATH.to_owned(),
        tenant => {
            let tenant: String = url::form_urlencoded::byte_serialize(tenant.as_bytes()).collect();
            format!("{LIVE_PATH}?tenant={tenant}")
        }
    }
}
