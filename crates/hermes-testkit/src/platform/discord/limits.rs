//! Rate limits: a bucket per route and channel, and the global one.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::response::Response;
use serde_json::json;

use super::reply::respond;

/// Requests per bucket where no test says otherwise: enough that nobody is limited.
const DEFAULT_LIMIT: u32 = 1000;
const DEFAULT_WINDOW: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct LimitTable {
    buckets: BTreeMap<(String, String), BucketState>,
    /// For `POST /channels/{id}/messages`.
    pub(super) message_limit: Option<(u32, Duration)>,
    /// Refusals that wait for requests to paths with this text.
    pub(super) ordered: Vec<OrderedLimit>,
    global_until: Option<Instant>,
}

/// A refusal that waits for its request.
pub(super) struct OrderedLimit {
    pub(super) path: String,
    pub(super) count: usize,
    pub(super) wait: Duration,
    pub(super) is_global: bool,
}

struct BucketState {
    remaining: u32,
    limit: u32,
    reset_at: Instant,
}

/// The bucket of a request: what the route is called, and the channel or guild it is about.
pub(super) struct RouteKey {
    pub(super) name: String,
    pub(super) major: String,
}

impl RouteKey {
    pub(super) fn new(method: &str, segments: &[&str]) -> Self {
        let mut name = method.to_owned();
        let mut major = String::new();
        for (index, segment) in segments.iter().enumerate() {
            name.push('/');
            let is_number = segment.chars().all(|sign| sign.is_ascii_digit());
            if !is_number {
                name.push_str(segment);
            } else if index == 1 {
                (*segment).clone_into(&mut major);
            }
        }
        Self { name, major }
    }

    /// As Discord does, a hash that says nothing.
    fn bucket(&self) -> String {
        let hash = self
            .name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        format!("{hash:016x}")
    }
}

/// What a request may do.
pub(super) enum LimitDecision {
    /// It goes on; its reply carries these headers.
    Pass(Vec<(&'static str, String)>),
    Refuse(Response),
}

impl LimitTable {
    pub(super) fn decide(&mut self, key: &RouteKey, path: &str) -> LimitDecision {
        let now = Instant::now();
        if let Some(until) = self.global_until.filter(|until| *until > now) {
            return refuse(key, until - now, true);
        }
        let is_next = |ordered: &OrderedLimit| ordered.count > 0 && path.contains(&ordered.path);
        if let Some(ordered) = self.ordered.iter_mut().find(|ordered| is_next(ordered)) {
            ordered.count -= 1;
            let (wait, is_global) = (ordered.wait, ordered.is_global);
            if is_global {
                self.global_until = Some(now + wait);
            }
            return refuse(key, wait, is_global);
        }
        let (limit, window) = match self.message_limit {
            Some(limit) if key.name == "POST/channels//messages" => limit,
            _ => (DEFAULT_LIMIT, DEFAULT_WINDOW),
        };
        let place = (key.name.clone(), key.major.clone());
        let bucket = self.buckets.entry(place).or_insert(BucketState {
            remaining: limit,
            limit,
            reset_at: now + window,
        });
        if bucket.reset_at <= now || bucket.limit != limit {
            *bucket = BucketState {
                remaining: limit,
                limit,
                reset_at: now + window,
            };
        }
        if bucket.remaining == 0 {
            return refuse(key, bucket.reset_at - now, false);
        }
        bucket.remaining -= 1;
        LimitDecision::Pass(headers(key, limit, bucket.remaining, bucket.reset_at - now))
    }
}

fn headers(
    key: &RouteKey,
    limit: u32,
    remaining: u32,
    wait: Duration,
) -> Vec<(&'static str, String)> {
    let at = SystemTime::now() + wait;
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    vec![
        ("x-ratelimit-limit", limit.to_string()),
        ("x-ratelimit-remaining", remaining.to_string()),
        ("x-ratelimit-reset", format!("{:.3}", at.as_secs_f64())),
        (
            "x-ratelimit-reset-after",
            format!("{:.3}", wait.as_secs_f64()),
        ),
        ("x-ratelimit-bucket", key.bucket()),
    ]
}

fn refuse(key: &RouteKey, wait: Duration, is_global: bool) -> LimitDecision {
    let mut all = headers(key, 5, 0, wait);
    if is_global {
        all.clear();
        all.push(("x-ratelimit-global", "true".into()));
    }
    let scope = if is_global { "global" } else { "user" };
    all.push(("x-ratelimit-scope", scope.into()));
    all.push(("retry-after", wait.as_secs_f64().ceil().to_string()));
    let seconds = (wait.as_secs_f64() * 1000.0).round() / 1000.0;
    let body = json!({
        "message": "You are being rate limited.", "retry_after": seconds, "global": is_global,
    });
    LimitDecision::Refuse(respond(Ok((429, body)), &all))
}
