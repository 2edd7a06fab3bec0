//! What the files of a login tell by themselves: whether somebody has to log in, without asking any server.

use std::time::SystemTime;

use hermes_config::{
    Server, TransportSettings,
    server::{HttpSettings, OAuthSettings},
};
use url::Url;

use super::{Login, OAuthError, ServerMetadata, TokenFiles, Tokens, discovery::is_resource_of};

/// Notice of the end of a login: so long before, or a tenth of its life if that is less.
const MAX_NOTICE_SECONDS: u64 = 24 * 60 * 60;

/// When the login of a server ends, in seconds since 1970, if that is soon and only a person can renew it.
pub fn ending_login(server: &Server, files: &TokenFiles) -> Option<u64> {
    find_http_with_login(server, files)?;
    let now = hermes_config::clock::unix_seconds(SystemTime::now());
    files.peek_tokens()?.announced_end(now)
}

/// How a server is reached, if a person logs in to it.
fn find_http_with_login<'s>(server: &'s Server, files: &TokenFiles) -> Option<&'s HttpSettings> {
    let (TransportSettings::Http(http) | TransportSettings::Sse(http)) = &server.transport else {
        return None;
    };
    let needs_nobody = server.auth.is_none() || is_noninteractive(&server.oauth, files);
    (!needs_nobody).then_some(http)
}

/// Why a person has to log in to a server before it can be used; `None` if nobody has to, or what is kept may be good.
pub fn missing_login(server: &Server, files: &TokenFiles) -> Option<OAuthError> {
    let http = find_http_with_login(server, files)?;
    // An address with references in it is not known without looking them up.
    let address = Some(&http.url).filter(|url| !url.contains("${"));
    let address = address.and_then(|url| Url::parse(url).ok());
    match files.peek_tokens() {
        None => Some(files.no_tokens_error()),
        Some(tokens) => {
            let elsewhere = address.and_then(|address| tokens.wrong_server_error(&address));
            elsewhere.or_else(|| tokens.is_expired().then(expired_error))
        }
    }
}

/// Whether tokens are got without a person, as far as that is known before anybody is asked.
fn is_noninteractive(settings: &OAuthSettings, files: &TokenFiles) -> bool {
    let OAuthSettings {
        grant,
        enterprise,
        assertion,
        ..
    } = settings;
    let is_said = grant.is_some() || enterprise.is_some() || assertion.is_some();
    let has_no_pages = |metadata: ServerMetadata| !metadata.supports_grant("authorization_code");
    Login::supports_noninteractive(settings)
        && (is_said || files.peek_metadata().is_some_and(has_no_pages))
}

fn expired_error() -> OAuthError {
    OAuthError::LoginExpired {
        reason: "it has expired".into(),
    }
}

impl TokenFiles {
    /// Why there are no tokens for the server at this address.
    pub(super) fn missing_tokens_error(&self, server: &Url) -> OAuthError {
        let elsewhere = self
            .peek_tokens()
            .and_then(|tokens| tokens.wrong_server_error(server));
        elsewhere.unwrap_or_else(|| self.no_tokens_error())
    }

    fn no_tokens_error(&self) -> OAuthError {
        match self.damaged_file() {
            Some(path) => OAuthError::LoginDamaged {
                path: path.display().to_string(),
            },
            None => OAuthError::NotLoggedIn,
        }
    }
}

impl Tokens {
    /// What is wrong with these tokens if they were got for another server: its address may have changed since.
    pub(super) fn wrong_server_error(&self, server: &Url) -> Option<OAuthError> {
        let resource = self.resource.as_ref()?;
        (!is_resource_of(resource, server)).then(|| OAuthError::WrongServer {
            resource: resource.clone(),
        })
    }

    /// When they end, if that is soon and nothing renews them.
    fn announced_end(&self, now: u64) -> Option<u64> {
        let end = self.expires_at().filter(|_| self.refresh_token.is_none())?;
        let tenth = self.expires_in.map_or(u64::MAX, |life| life / 10);
        let left = end.checked_sub(now)?;
        (left <= MAX_NOTICE_SECONDS.min(tenth)).then_some(end)
    }

    /// Whether they have ended and nothing renews them.
    fn is_expired(&self) -> bool {
        let now = hermes_config::clock::unix_seconds(SystemTime::now());
        self.refresh_token.is_none() && self.expires_at().is_some_and(|end| end < now)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hermes_config::{Home, ServerEntry, ServerName, Variables};
    use serde_json::{Value, json};

    use super::*;

    const DUE: &str = "the login has ended: it has expired";

    /// What is missing with this entry, this token file and this metadata, in words.
    fn missing(entry: Value, tokens: Option<&str>, metadata: Option<Value>) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        fs::create_dir(home.tokens_dir()).unwrap();
        if let Some(tokens) = tokens {
            fs::write(home.tokens_dir().join("s.json"), tokens).unwrap();
        }
        if let Some(metadata) = metadata {
            fs::write(home.tokens_dir().join("s.meta.json"), metadata.to_string()).unwrap();
        }
        let (entry, _) = ServerEntry::parse("s", entry, &Variables::default());
        let files = TokenFiles::new(&home, [], &ServerName::new("s"));
        let missing = missing_login(&entry.server.unwrap(), &files)?;
        assert!(missing.needs_login(), "{missing:?}");
        let text = missing.to_string();
        Some(text.replace(&home.tokens_dir().display().to_string(), "…"))
    }

    fn with_oauth(oauth: &Value) -> Value {
        json!({"url": "https://h.example/mcp", "auth": "oauth", "oauth": oauth})
    }

    #[test]
    fn a_login_is_missing_that_is_not_there_is_broken_or_has_ended_for_good() {
        let check = |tokens: Option<&str>| missing(with_oauth(&json!({})), tokens, None);
        let text = |tokens| check(Some(tokens)).unwrap_or_default();
        assert_eq!(check(None).as_deref(), Some("there is no login yet"));
        assert_eq!(text("{"), "the login is lost: …/s.json is damaged");
        assert_eq!(text(r#"{"access_token": "a", "expires_at": 5}"#), DUE);
        for good in [
            r#"{"access_token": "a"}"#,
            r#"{"access_token": "a", "expires_at": 99999999999}"#,
            r#"{"access_token": "a", "expires_at": 5, "refresh_token": "r"}"#,
            r#"{"access_token": "a", "resource": "https://h.example"}"#,
        ] {
            assert_eq!(text(good), "", "{good}");
        }
    }

    #[test]
    fn the_end_of_a_login_is_announced_if_only_a_person_renews_it() {
        let end = |tokens: Value, now: u64| {
            let tokens: Tokens = serde_json::from_value(tokens).unwrap();
            tokens.announced_end(now)
        };
        let day = 24 * 60 * 60;
        let month = json!({"access_token": "a", "expires_at": 100 * day, "expires_in": 30 * day});
        assert_eq!(end(month.clone(), 98 * day), None);
        assert_eq!(end(month.clone(), 99 * day), Some(100 * day));
        assert_eq!(end(month, 100 * day + 1), None, "it has ended");
        let hour = json!({"access_token": "a", "expires_at": 3600, "expires_in": 3600});
        assert_eq!(end(hour.clone(), 0), None, "it has just begun");
        assert_eq!(end(hour, 3300), Some(3600));
        let renewed = json!({"access_token": "a", "expires_at": 9, "refresh_token": "r"});
        assert_eq!(end(renewed, 8), None);
        assert_eq!(end(json!({"access_token": "a"}), 8), None);
    }

    #[test]
    fn a_login_for_another_address_is_not_a_login() {
        let tokens = Some(r#"{"access_token": "a", "resource": "https://old.example/mcp"}"#);
        let text = missing(with_oauth(&json!({})), tokens, None);
        assert!(text.unwrap().contains("https://old.example/mcp"));
        // Where it leads is not known without looking the reference up.
        let entry = json!({"url": "https://h.example/${PLACE}", "auth": "oauth"});
        assert_eq!(missing(entry, tokens, None), None);
    }

    #[test]
    fn nobody_is_missing_where_nobody_is_needed() {
        let secret = json!({"client_id": "c", "client_secret": "s"});
        let with_grant =
            json!({"client_id": "c", "client_secret": "s", "grant": "client_credentials"});
        let metadata = |grant: &str| {
            let issuer = "https://as.example";
            Some(json!({"issuer": issuer, "grant_types_supported": [grant]}))
        };
        assert_eq!(missing(with_oauth(&with_grant), None, None), None);
        assert_eq!(
            missing(json!({"url": "https://h.example"}), None, None),
            None
        );
        // A client with a secret logs people in, unless its authorization server has no pages for them.
        let with = |metadata| missing(with_oauth(&secret), None, metadata);
        assert!(with(None).is_some());
        assert!(with(metadata("authorization_code")).is_some());
        assert_eq!(with(metadata("client_credentials")), None);
    }
}
