//! The web console from outside: [`ConsoleBrowser`] is a browser without scripts, over HTTP.
//!
//! Tests of a page are in `console/<page>.rs`; add a `mod` line below. They read like this:
//!
//! ```ignore
//! let hub = TestHub::new().await.with_examples().await;
//! let admin = ConsoleBrowser::as_admin(&hub).await;
//! let page = admin.get("/tenants").await.expect_status(200);
//! page.assert_shows("Acme");
//! let page = admin.submit("/do/create_tenant", &[("id", "new")]).await; // the page behind the redirect
//! page.expect_status(200).assert_shows("new");
//! let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
//! viewer.get("/tenants").await.assert_lacks("/do/create_tenant");
//! ```

use reqwest::{Client, RequestBuilder, header, redirect};
use serde_json::{Value, json};

use crate::test_hub::{TIMEOUT, TestHub};

mod approvals;
mod audit;
mod character;
mod chat;
mod conflicts;
mod conversations;
mod cron;
mod elicitation;
mod files;
mod filled_form;
mod foreign_requests;
mod groups;
mod hostile_texts;
mod hub_pages;
mod huge_files;
mod links;
pub(crate) mod live;
mod mcp_servers;
mod missing_workspace;
mod numbers;
mod one_person;
mod operations;
mod overview;
mod platforms;
mod policy;
mod problems;
pub(crate) mod provider;
mod real_servers;
mod runs;
mod session_ends;
mod sessions;
mod skills;
mod tenants;
mod tokens;
mod usage;

/// Somebody who is signed in.
pub(crate) struct ConsoleBrowser {
    client: Client,
    origin: String,
    cookie: String,
    csrf: String,
    /// `Accept-Language`.
    language: String,
}

/// A page, or what came in its place.
#[derive(Debug)]
pub(crate) struct ConsolePage {
    pub(crate) status: u16,
    /// Where it lies: after a form, where that has led to.
    pub(crate) address: String,
    pub(crate) headers: header::HeaderMap,
    pub(crate) text: String,
}

impl ConsoleBrowser {
    pub(crate) async fn as_admin(hub: &TestHub) -> Self {
        Self::sign_in(hub, &hub.admin).await
    }

    /// With a new token with these rights: `role`, `scopes`, `tenants`.
    pub(crate) async fn with_rights(hub: &TestHub, mut rights: Value) -> Self {
        if rights.get("name").is_none() {
            rights["name"] = json!("reader");
        }
        let token = hub.token(rights).await;
        Self::sign_in(hub, &token).await
    }

    /// Signs in as a person does: with the form of the page.
    pub(crate) async fn sign_in(hub: &TestHub, token: &str) -> Self {
        let mut browser = Self::stranger(hub);
        let signed_in = browser.post("/sign-in", &[("token", token)]).await;
        assert_eq!(signed_in.status, 303, "{}", signed_in.text);
        let cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap();
        browser.cookie = cookie.split(';').next().unwrap().to_owned();
        let page = browser.get("/").await.expect_status(200);
        browser
            .csrf
            .clone_from(&attribute_values(&page.text, "data-csrf")[0]);
        browser
    }

    /// Somebody who has not signed in.
    pub(crate) fn stranger(hub: &TestHub) -> Self {
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .build()
            .unwrap();
        Self {
            client,
            origin: hub.url.clone(),
            cookie: String::new(),
            csrf: String::new(),
            language: "en".to_owned(),
        }
    }

    /// The same with other cookies, as `Cookie` has them.
    pub(crate) fn with_cookie(mut self, cookie: &str) -> Self {
        cookie.clone_into(&mut self.cookie);
        self
    }

    /// The same after a look at a page, whose forms can be sent then.
    pub(crate) async fn with_csrf(mut self) -> Self {
        let page = self.get("/").await.expect_status(200);
        self.csrf
            .clone_from(&attribute_values(&page.text, "data-csrf")[0]);
        self
    }

    /// What `Cookie` has.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// The same person with another language.
    pub(crate) fn speaking(mut self, language: &str) -> Self {
        language.clone_into(&mut self.language);
        self
    }

    /// What every form of this session carries.
    pub(crate) fn csrf(&self) -> &str {
        &self.csrf
    }

    /// A request with the cookie, for what `get` and `submit` do not do.
    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> RequestBuilder {
        let request = self
            .client
            .request(method, format!("{}{path}", self.origin))
            .header(header::ACCEPT_LANGUAGE, &self.language);
        if self.cookie.is_empty() {
            request
        } else {
            request.header(header::COOKIE, &self.cookie)
        }
    }

    /// Sends a request as it is; redirects are not followed.
    pub(crate) async fn send(&self, request: RequestBuilder) -> ConsolePage {
        let answered = tokio::time::timeout(TIMEOUT, request.send()).await;
        let response = answered.expect("no answer in time").unwrap();
        let url = response.url();
        let address = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        ConsolePage {
            status: response.status().as_u16(),
            address,
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    /// A page, also behind a redirect.
    pub(crate) async fn get(&self, path: &str) -> ConsolePage {
        let mut page = self.send(self.request(reqwest::Method::GET, path)).await;
        for _ in 0..5 {
            let Some(next) = page.location() else {
                break;
            };
            page = self.send(self.request(reqwest::Method::GET, &next)).await;
        }
        page
    }

    /// Sends a form of this session, and goes where that leads.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> ConsolePage {
        let mut all = vec![("csrf", self.csrf.as_str())];
        all.extend_from_slice(fields);
        let page = self.post(path, &all).await;
        match page.location() {
            Some(next) => self.get(&next).await,
            None => page,
        }
    }

    /// Sends exactly these fields from a page of this origin; redirects are not followed.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> ConsolePage {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let request = self
            .request(reqwest::Method::POST, path)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ORIGIN, &self.origin)
            .header("sec-fetch-site", "same-origin")
            .body(body);
        self.send(request).await
    }
}

impl ConsolePage {
    #[track_caller]
    pub(crate) fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.address, self.text);
        self
    }

    #[track_caller]
    pub(crate) fn assert_shows(&self, text: &str) {
        let address = &self.address;
        assert!(self.shows(text), "{address} lacks `{text}`: {}", self.text);
    }

    #[track_caller]
    pub(crate) fn assert_lacks(&self, text: &str) {
        let address = &self.address;
        assert!(!self.shows(text), "{address} has `{text}`: {}", self.text);
    }

    /// Whether the page's HTML has this text.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.text.contains(text)
    }

    /// The values of an attribute, as `href` or `action`, with their entities decoded.
    pub(crate) fn attributes(&self, name: &str) -> Vec<String> {
        attribute_values(&self.text, name)
    }

    /// The addresses of this console to which the page links, without fragments.
    pub(crate) fn links(&self) -> Vec<String> {
        let links = self.attributes("href").into_iter();
        let own = links.filter_map(|link| {
            let link = link.split('#').next().unwrap_or_default();
            let path = if link.starts_with('?') {
                let page = self.address.split('?').next().unwrap_or_default();
                format!("{page}{link}")
            } else {
                link.to_owned()
            };
            (path.starts_with('/') && !path.starts_with("//")).then_some(path)
        });
        own.collect()
    }

    fn location(&self) -> Option<String> {
        let location = self.headers.get(header::LOCATION)?;
        Some(location.to_str().unwrap().to_owned())
    }
}

fn attribute_values(html: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let values = html.split(&start).skip(1);
    let values = values.filter_map(|rest| Some(rest.split_once('"')?.0));
    values.map(decode_entities).collect()
}

/// Those that askama writes.
fn decode_entities(text: &str) -> String {
    let entities = [
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#38;", "&"),
        ("&amp;", "&"),
    ];
    let mut text = text.to_owned();
    for (entity, character) in entities {
        text = text.replace(entity, character);
    }
    text
}
