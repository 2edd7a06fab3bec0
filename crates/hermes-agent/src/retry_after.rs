//! How long a server asks its clients to wait: the header `Retry-After` and what some servers send instead.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// The pause in seconds, in milliseconds or as a date. A date that is over is no pause.
pub fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(
        date.duration_since(SystemTime::now())
            .unwrap_or(Duration::ZERO),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_read_in_all_three_forms() {
        let pause = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            parse_retry_after(&headers)
        };
        assert_eq!(pause("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(
            pause("retry-after", "0.5"),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            pause("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(30));
        let parsed = pause("retry-after", &date).unwrap();
        assert!((10..=30).contains(&parsed.as_secs()), "{parsed:?}");
        assert_eq!(
            pause("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(Duration::ZERO)
        );
        assert_eq!(pause("retry-after", "soon"), None);
        assert_eq!(pause("retry-after", "-3"), None);
    }
}
