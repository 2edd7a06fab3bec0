//! Where objects are: `s3://bucket/prefix` or `file:///directory`.

use std::{fmt, path::PathBuf, sync::Arc};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig, aws::AmazonS3Builder,
    local::LocalFileSystem, path::Path as ObjectPath,
};

use super::{ObjectError, ObjectTimeouts, error::classify, http::HubConnector};
use crate::{settings::ObjectSettings, storage::data_dir::ensure_private_dir};

const MAX_RETRIES: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectLocation {
    S3 { bucket: String, prefix: String },
    Directory(PathBuf),
}

impl fmt::Display for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Directory(path) => write!(f, "file://{}", path.display()),
        }
    }
}

impl ObjectLocation {
    pub fn parse(url: &str) -> Result<Self, ObjectError> {
        let refuse = |reason: &str| ObjectError::Setting {
            key: "objects.url",
            reason: reason.to_owned(),
        };
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() || bucket.contains(['@', ':', '?', '#']) {
                return Err(refuse(
                    "write `s3://bucket/prefix`; the server goes to `objects.endpoint`, and keys are not part of it",
                ));
            }
            return Ok(Self::S3 {
                bucket: bucket.to_owned(),
                prefix: prefix.trim_matches('/').to_owned(),
            });
        }
        let Some(path) = url.strip_prefix("file:") else {
            return Err(refuse("begins with `s3://` or `file:`"));
        };
        let path = path.strip_prefix("//").unwrap_or(path);
        if !path.starts_with('/') {
            return Err(refuse("a directory is named by its absolute path"));
        }
        Ok(Self::Directory(path.into()))
    }

    pub(super) fn open(
        &self,
        settings: &ObjectSettings,
        timeouts: ObjectTimeouts,
    ) -> Result<(Arc<dyn ObjectStore>, ObjectPath), ObjectError> {
        match self {
            Self::Directory(path) => {
                let unusable = |reason: String| ObjectError::Setting {
                    key: "objects.url",
                    reason: format!("`{}` cannot be used: {reason}", path.display()),
                };
                ensure_private_dir(path).map_err(|error| unusable(error.to_string()))?;
                let directory = LocalFileSystem::new_with_prefix(path)
                    .map_err(|error| unusable(error.to_string()))?;
                Ok((Arc::new(directory.with_fsync(true)), ObjectPath::default()))
            }
            Self::S3 { bucket, prefix } => {
                let prefix = ObjectPath::parse(prefix).map_err(|error| ObjectError::Setting {
                    key: "objects.url",
                    reason: error.to_string(),
                })?;
                let bucket = open_bucket(bucket, settings, timeouts)?;
                Ok((bucket, prefix))
            }
        }
    }
}

/// The keys are those of the settings, those of the usual variables, or the ones that the machine's role has.
fn open_bucket(
    bucket: &str,
    settings: &ObjectSettings,
    timeouts: ObjectTimeouts,
) -> Result<Arc<dyn ObjectStore>, ObjectError> {
    let retries = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: std::time::Duration::from_millis(50),
            max_backoff: std::time::Duration::from_secs(2),
            ..BackoffConfig::default()
        },
        max_retries: MAX_RETRIES,
        retry_timeout: timeouts.operation,
    };
    // Whether plain HTTP is allowed is the settings' own, whatever the variables say.
    let mut builder = AmazonS3Builder::from_env()
        .with_client_options(ClientOptions::new().with_allow_http(settings.allow_http))
        .with_allow_http(settings.allow_http)
        .with_bucket_name(bucket)
        .with_retry(retries)
        .with_http_connector(HubConnector { timeouts });
    if let Some(endpoint) = &settings.endpoint {
        if endpoint.starts_with("http://") && !settings.allow_http {
            return Err(ObjectError::Setting {
                key: "objects.endpoint",
                reason: "is plain HTTP, which anybody on the way can read: use `https://`, or set `objects.allow_http`"
                    .into(),
            });
        }
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    }
    if let (Some(id), Some(secret)) = (&settings.access_key_id, &settings.secret_access_key) {
        builder = builder
            .with_access_key_id(id)
            .with_secret_access_key(secret.expose());
    }
    let bucket = builder
        .build()
        .map_err(|error| match classify("", &error) {
            ObjectError::Failing { reply } => ObjectError::Setting {
                key: "objects",
                reason: reply,
            },
            other => other,
        })?;
    Ok(Arc::new(bucket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_with_a_prefix_or_a_directory() {
        let s3 = |bucket: &str, prefix: &str| ObjectLocation::S3 {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (url, location) in [
            ("s3://hub", s3("hub", "")),
            ("s3://hub/", s3("hub", "")),
            ("s3://hub/a/b/", s3("hub", "a/b")),
            (
                "file:///srv/hub",
                ObjectLocation::Directory("/srv/hub".into()),
            ),
            (
                "file:/srv/hub",
                ObjectLocation::Directory("/srv/hub".into()),
            ),
        ] {
            assert_eq!(ObjectLocation::parse(url).unwrap(), location, "{url}");
        }
        for url in [
            "",
            "s3://",
            "s3:///a",
            "s3://id:key@hub/a",
            "file:a",
            "https://hub",
        ] {
            let error = ObjectLocation::parse(url).unwrap_err().to_string();
            assert!(error.contains("`objects.url`"), "{url}: {error}");
            assert!(!error.contains("id:key"), "{error}");
        }
    }
}
