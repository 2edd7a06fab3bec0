//! Query parameters of a request.

use axum::http::Uri;
use url::form_urlencoded;

use super::error::ApiError;

pub(super) fn value(uri: &Uri, key: &str) -> Option<String> {
    let query = uri.query()?;
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.into_owned())
}

pub(super) fn number<T: std::str::FromStr>(
    uri: &Uri,
    key: &'static str,
) -> Result<Option<T>, ApiError> {
    let Some(text) = value(uri, key) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ApiError::member(key, format!("`{key}` must be a number"))),
    }
}

pub(super) fn flag(uri: &Uri, key: &str) -> bool {
    value(uri, key).is_some_and(|value| matches!(value.as_str(), "true" | "1" | "yes"))
}
