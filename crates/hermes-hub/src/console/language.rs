//! The language that a reader chooses, kept in a cookie. Without one, the browser says which it is.

use axum::{
    Form,
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, header};
use serde::Deserialize;

use super::{actions::is_local, session_cookie::is_secure, texts::Texts};
use crate::Hub;

pub(super) const PATH: &str = "/language";
const COOKIE: &str = "hermes_language";

#[derive(Deserialize)]
pub(super) struct LanguageForm {
    #[serde(default)]
    to: String,
    #[serde(default)]
    next: String,
}

/// Keeps the choice for a year. It is not a secret, and it changes nothing in the Hub.
pub(super) async fn choose(State(hub): State<Hub>, Form(form): Form<LanguageForm>) -> Response {
    let next = if is_local(&form.next) {
        form.next.as_str()
    } else {
        "/"
    };
    let cookie = Texts::in_language(&form.to).map(|texts| {
        let language = texts.language;
        let secure = if is_secure(&hub.settings()) {
            "; Secure"
        } else {
            ""
        };
        let cookie = format!(
            "{COOKIE}={language}; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age=31536000"
        );
        [(header::SET_COOKIE, cookie)]
    });
    (cookie, Redirect::to(next)).into_response()
}

/// The texts for a reader: in the language that was chosen, else in the one that is preferred.
pub(super) fn texts_for(headers: &HeaderMap) -> &'static Texts {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'));
    let chosen = pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    });
    let chosen = chosen.and_then(Texts::in_language);
    chosen.unwrap_or_else(|| Texts::for_reader(headers))
}
