//! Discord's rate limits: a bucket per route and channel, which the replies name, and one for the whole bot.
//!
//! A request that a bucket has no room for is not sent: it fails at once with the time to wait. Others go on.

use std::{collections::HashMap, time::Duration};

use hermes_config::sync::Mutex;
use reqwest::header::HeaderMap;
use tokio::time::Instant;

/// Buckets whose time is over are removed when there are more than these.
const MANY_BUCKETS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct RateLimits(Mutex<LimitState>);

#[derive(Debug, Default)]
struct LimitState {
    /// The bucket of each route, as Discord names it.
    names: HashMap<String, String>,
    /// By name of the bucket, or by route until that is known, and by channel.
    buckets: HashMap<(String, String), Bucket>,
    global_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    remaining: u64,
    reset_at: Instant,
}

/// What shares a limit: a route, and the channel, guild or webhook it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RestRoute {
    name: String,
    major: String,
    /// Interactions are not part of the limit of the whole bot.
    is_global: bool,
}

impl RestRoute {
    pub(super) fn new(method: &str, path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let mut name = method.to_owned();
        let is_interaction = matches!(segments.first(), Some(&"interactions" | &"webhooks"));
        for (index, segment) in segments.iter().enumerate() {
            let is_id = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
            // Emojis and tokens are arguments, too.
            let is_argument = is_id || (is_interaction && index == 2);
            let is_emoji = index > 0 && segments[index - 1] == "reactions";
            name.push('/');
            name.push_str(if is_argument || is_emoji {
                "{}"
            } else {
                segment
            });
        }
        Self {
            name,
            major: (*segments.get(1).unwrap_or(&"")).to_owned(),
            is_global: !is_interaction,
        }
    }
}

impl LimitState {
    fn place(&self, route: &RestRoute) -> (String, String) {
        let name = self.names.get(&route.name).unwrap_or(&route.name);
        (name.clone(), route.major.clone())
    }
}

impl RateLimits {
    /// Takes a place in the bucket of a route, or says how long there is none.
    pub(super) fn acquire(&self, route: &RestRoute) -> Result<(), Duration> {
        let now = Instant::now();
        let mut state = self.0.lock();
        if let Some(until) = state.global_until.filter(|until| *until > now)
            && route.is_global
        {
            return Err(until - now);
        }
        let place = state.place(route);
        let Some(bucket) = state.buckets.get_mut(&place) else {
            return Ok(());
        };
        if bucket.reset_at <= now {
            state.buckets.remove(&place);
            return Ok(());
        }
        if bucket.remaining == 0 {
            return Err(bucket.reset_at - now);
        }
        bucket.remaining -= 1;
        Ok(())
    }

    /// What the headers of a reply say.
    pub(super) fn read_headers(&self, route: &RestRoute, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let (Some(remaining), Some(wait)) = (
            text("x-ratelimit-remaining").and_then(|text| text.parse().ok()),
            text("x-ratelimit-reset-after").and_then(parse_seconds),
        ) else {
            return;
        };
        let now = Instant::now();
        let mut state = self.0.lock();
        if let Some(name) = text("x-ratelimit-bucket") {
            state.names.insert(route.name.clone(), name.to_owned());
        }
        let bucket = Bucket {
            remaining,
            reset_at: now + wait,
        };
        let place = state.place(route);
        // Replies may overtake each other: in one period the lowest number counts.
        let known = state.buckets.get(&place).copied();
        let bucket = match known {
            Some(known) if known.reset_at > now && known.reset_at + wait / 2 > bucket.reset_at => {
                Bucket {
                    remaining: remaining.min(known.remaining),
                    reset_at: known.reset_at.max(bucket.reset_at),
                }
            }
            _ => bucket,
        };
        state.buckets.insert(place, bucket);
        if state.buckets.len() > MANY_BUCKETS {
            state.buckets.retain(|_, bucket| bucket.reset_at > now);
        }
    }

    /// A request was refused for so long.
    pub(super) fn close(&self, route: &RestRoute, wait: Duration, is_global: bool) {
        let until = Instant::now() + wait;
        let mut state = self.0.lock();
        if is_global {
            state.global_until = Some(until);
            return;
        }
        let place = state.place(route);
        let bucket = Bucket {
            remaining: 0,
            reset_at: until,
        };
        state.buckets.insert(place, bucket);
    }
}

fn parse_seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(remaining: u64, after: &str) -> HeaderMap {
        let pairs = [
            ("x-ratelimit-bucket", "abc".to_owned()),
            ("x-ratelimit-remaining", remaining.to_string()),
            ("x-ratelimit-reset-after", after.to_owned()),
        ];
        let pairs = pairs.map(|(name, value)| {
            let name = reqwest::header::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        HeaderMap::from_iter(pairs)
    }

    #[test]
    fn a_route_is_known_by_its_shape_and_channel() {
        let route = RestRoute::new("POST", "/channels/42/messages");
        assert_eq!(route, RestRoute::new("POST", "/channels/42/messages?x=1"));
        assert_ne!(route, RestRoute::new("POST", "/channels/43/messages"));
        assert_eq!(
            RestRoute::new("PUT", "/channels/1/messages/2/reactions/%F0%9F%91%80/@me"),
            RestRoute::new("PUT", "/channels/1/messages/3/reactions/%E2%9C%85/@me"),
        );
        assert!(!RestRoute::new("POST", "/interactions/1/token/callback").is_global);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_bucket_stops_its_channel_only_and_fills_again() {
        let limits = RateLimits::default();
        let one = RestRoute::new("POST", "/channels/1/messages");
        let two = RestRoute::new("POST", "/channels/2/messages");
        assert_eq!(limits.acquire(&one), Ok(()));
        limits.read_headers(&one, &headers(1, "4.0"));
        assert_eq!(limits.acquire(&one), Ok(()));
        assert_eq!(limits.acquire(&one), Err(Duration::from_secs(4)));
        assert_eq!(limits.acquire(&two), Ok(()));
        tokio::time::advance(Duration::from_millis(4001)).await;
        assert_eq!(limits.acquire(&one), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_reply_does_not_open_a_bucket_again() {
        let limits = RateLimits::default();
        let route = RestRoute::new("POST", "/channels/1/messages");
        limits.read_headers(&route, &headers(0, "5.0"));
        limits.read_headers(&route, &headers(3, "5.0"));
        assert!(limits.acquire(&route).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_of_the_bot_stops_everything_but_interactions() {
        let limits = RateLimits::default();
        let route = RestRoute::new("GET", "/users/@me");
        limits.close(&route, Duration::from_secs(2), true);
        assert_eq!(limits.acquire(&route), Err(Duration::from_secs(2)));
        let other = RestRoute::new("POST", "/channels/1/messages");
        assert!(limits.acquire(&other).is_err());
        let interaction = RestRoute::new("POST", "/interactions/1/x/callback");
        assert_eq!(limits.acquire(&interaction), Ok(()));
    }
}
