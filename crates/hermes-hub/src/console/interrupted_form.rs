//! A form that was sent when the session had ended: it goes along through the sign-in, and is offered again behind it.

use askama::Template;
use axum::{
    body::to_bytes,
    extract::Request,
    response::{Html, IntoResponse, Response},
};
use http::header;

use super::{actions::is_local, assets, texts::Texts};

/// A longer one is not kept.
const MAX_BYTES: usize = 512 << 10;
/// Addresses of forms that are kept: others are only on the way to a page.
const FORM_PATHS: [&str; 2] = ["/do/", "/tenants/"];

/// What was sent, and where to.
#[derive(Default, Clone)]
pub(super) struct InterruptedForm {
    pub(super) address: String,
    /// As the body had them.
    pub(super) fields: String,
}

impl InterruptedForm {
    /// The form in a request; `None` if it is none, or not one of ours.
    pub(super) async fn read(request: &mut Request) -> Option<Self> {
        let kind = request.headers().get(header::CONTENT_TYPE)?;
        let is_form = kind
            .as_bytes()
            .starts_with(b"application/x-www-form-urlencoded");
        let address = request.uri().path_and_query()?.to_string();
        if !is_form || !Self::is_kept(&address) {
            return None;
        }
        let body = to_bytes(std::mem::take(request.body_mut()), MAX_BYTES)
            .await
            .ok()?;
        let fields = String::from_utf8(body.to_vec()).ok()?;
        Some(Self { address, fields })
    }

    fn is_kept(address: &str) -> bool {
        is_local(address) && FORM_PATHS.iter().any(|start| address.starts_with(start))
    }

    /// As the page of the sign-in has sent it along.
    pub(super) fn from_fields(address: String, fields: String) -> Option<Self> {
        Self::is_kept(&address).then_some(Self { address, fields })
    }
}

#[derive(Template)]
#[template(path = "interrupted_form.html")]
struct InterruptedFormPage<'a> {
    texts: &'static Texts,
    address: &'a str,
    fields: Vec<(String, String)>,
    csrf: &'a str,
    next: &'a str,
}

impl InterruptedFormPage<'_> {
    fn t<'a>(&'a self, key: &'a str) -> &'a str {
        self.texts.get(key)
    }

    fn asset(&self, name: &str) -> &'static str {
        assets::address(name)
    }
}

/// Offers to send a form again, now that somebody is signed in.
pub(super) fn offer_again(
    texts: &'static Texts,
    form: &InterruptedForm,
    csrf: &str,
    next: &str,
) -> Option<Response> {
    let fields = url::form_urlencoded::parse(form.fields.as_bytes()).into_owned();
    let page = InterruptedFormPage {
        texts,
        address: &form.address,
        fields: fields.filter(|(name, _)| name != "csrf").collect(),
        csrf,
        next,
    };
    Some(Html(page.render().ok()?).into_response())
}
