//! Query parameters of a request.

use axum::http::Uri;
use url::form_urlencoded;

use super::error::ApiError;

pub(super) fn get_value(uri: &Uri, key: &str) -> Option<String> {
    let query = uri.query()?;
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.into_owned())
}

pub(super) fn parse_number<T: std::str::FromStr>(
    uri: &Uri,
    key: &'static str,
) -> Result<Option<T>, ApiError> {
    let Some(text) = get_value(uri, key) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ApiError::invalid_member(
            key,
            format!("`{key}` must be a number"),
        )),
    }
}

pub(super) fn is_set(uri: &Uri, key: &str) -> bool {
    get_value(uri, key).is_some_and(|value| matches!(value.as_str(), "true" | "1" | "yes"))
}
