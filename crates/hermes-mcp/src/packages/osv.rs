//! Asks a public database of malicious packages before `npx`, `uvx` or `pipx` fetches and runs one.
//!
//! Only known malware is refused. A failed lookup does not prevent the start, and results, failures included, are cached in
//! `cache/osv`, so that no start waits twice.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use hermes_config::{Home, HttpSettings, Variables, clock::unix_seconds};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{cache_file, http_client};

pub(crate) use crate::packages::package::Package;

const ENDPOINT: &str = "https://api.osv.dev/v1/query";
/// Names another endpoint, or `off`.
const ENDPOINT_VARIABLE: &str = "OSV_ENDPOINT";
/// The longest that a start waits for the lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a result is cached.
const CACHE_TTL: Duration = Duration::from_hours(24);
/// How long a failed lookup is not repeated.
const FAILURE_CACHE_TTL: Duration = Duration::from_mins(15);
/// A package with many old flaws has a long list of them.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// How many reports a refusal names.
const MAX_NAMED_REPORTS: usize = 3;

/// A package that is known to be malware.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "refused: the {ecosystem} package `{package}` is known to be malicious ({}); remove it, and see https://osv.dev/{}",
    reports.join(", "),
    reports.first().map_or("", |report| report.as_str())
)]
pub(crate) struct MaliciousPackage {
    ecosystem: &'static str,
    package: String,
    reports: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CachedLookup {
    /// For people who look into the cache.
    package: String,
    checked_at: u64,
    /// `None`: there was no answer.
    reports: Option<Vec<String>>,
}

impl CachedLookup {
    fn is_fresh(&self) -> bool {
        let kept = match self.reports {
            Some(_) => CACHE_TTL,
            None => FAILURE_CACHE_TTL,
        };
        let age = unix_seconds(SystemTime::now()).saturating_sub(self.checked_at);
        age < kept.as_secs()
    }
}

/// Refuses a package that is known to be malicious.
pub(crate) async fn check_package(
    package: &Package,
    home: &Home,
    variables: &Variables,
    limit: Duration,
) -> Result<(), MaliciousPackage> {
    let endpoint = variables.get(ENDPOINT_VARIABLE).map(str::trim);
    let endpoint = endpoint.filter(|endpoint| !endpoint.is_empty());
    let endpoint = endpoint.unwrap_or(ENDPOINT);
    if endpoint == "off" {
        return Ok(());
    }
    let path = cache_path(home, endpoint, package);
    let known = std::fs::read(&path).ok();
    let known = known.and_then(|text| serde_json::from_slice::<CachedLookup>(&text).ok());
    let known = match known.filter(CachedLookup::is_fresh) {
        Some(known) => known,
        None => lookup_and_cache(package, endpoint, limit.min(LOOKUP_TIMEOUT), path).await,
    };
    let reports = known.reports.unwrap_or_default();
    if reports.is_empty() {
        return Ok(());
    }
    Err(MaliciousPackage {
        ecosystem: package.ecosystem,
        package: package.name.clone(),
        reports: reports.into_iter().take(MAX_NAMED_REPORTS).collect(),
    })
}

fn cache_path(home: &Home, endpoint: &str, package: &Package) -> PathBuf {
    let Package {
        ecosystem,
        name,
        version,
    } = package;
    let question = json!([endpoint, ecosystem, name, version]).to_string();
    let digest = Sha256::digest(question.as_bytes());
    let mut number = [0; 16];
    number.copy_from_slice(&digest[..16]);
    let name = format!("{:032x}.json", u128::from_be_bytes(number));
    home.cache_dir().join("osv").join(name)
}

async fn lookup_and_cache(
    package: &Package,
    endpoint: &str,
    limit: Duration,
    path: PathBuf,
) -> CachedLookup {
    let answer = tokio::time::timeout(limit, query_osv(package, endpoint)).await;
    let reports = match answer {
        Ok(Ok(reports)) => Some(reports),
        Ok(Err(reason)) => {
            tracing::debug!(package = package.name, reason, "OSV lookup failed");
            None
        }
        Err(_) => {
            tracing::debug!(package = package.name, "OSV lookup timed out");
            None
        }
    };
    let known = CachedLookup {
        package: package.name.clone(),
        checked_at: unix_seconds(SystemTime::now()),
        reports,
    };
    let kept = serde_json::to_vec(&known).map_err(std::io::Error::from);
    if let Err(error) = kept.and_then(|text| cache_file::write_cache_file(&path, &text)) {
        tracing::debug!(%error, "failed to write the OSV cache");
    }
    known
}

/// The reports of malware on a package.
async fn query_osv(package: &Package, endpoint: &str) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct OsvResponse {
        #[serde(default)]
        vulns: Vec<OsvAdvisory>,
    }
    #[derive(Deserialize)]
    struct OsvAdvisory {
        id: String,
    }
    let settings = HttpSettings {
        url: endpoint.to_owned(),
        ..HttpSettings::default()
    };
    let text = |error: reqwest::Error| error.without_url().to_string();
    let client =
        http_client::client(&settings, LOOKUP_TIMEOUT).map_err(|error| error.to_string())?;
    let mut question = json!({
        "package": {"name": package.name, "ecosystem": package.ecosystem},
    });
    if let Some(version) = &package.version {
        question["version"] = version.as_str().into();
    }
    let request = client
        .post(endpoint)
        .header("Content-Type", "application/json")
        .body(question.to_string());
    let mut response = request.send().await.map_err(text)?;
    if !response.status().is_success() {
        return Err(format!("status {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(text)? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_RESPONSE_BYTES {
            return Err("the answer is too long".into());
        }
    }
    let answer: OsvResponse = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let ids = answer.vulns.into_iter().map(|report| report.id);
    Ok(ids.filter(|id| id.starts_with("MAL-")).collect())
}
