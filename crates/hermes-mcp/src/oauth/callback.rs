//! The callback of a login: the address that the browser is redirected to, its parameters, and the page that the person
//! sees there.

use hermes_config::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use url::form_urlencoded;

use super::{OAuthError, ServerMetadata, pkce, requests::one_line};

/// Longer than any answer.
const MAX_REQUEST_BYTES: usize = 32 * 1024;
/// How long a browser may take to send what it has to say.
const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// What an authorization server answers, by way of the browser.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationRedirect {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
}

impl AuthorizationRedirect {
    /// Reads an address, or what follows the `?` in it.
    pub fn parse(text: &str) -> Result<Self, OAuthError> {
        let text = text.trim().trim_matches(['"', '\'', '<', '>']);
        if ["skip", "cancel", "s", "n", "no", "q", "quit"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
        {
            return Err(OAuthError::Cancelled);
        }
        let query = text.split_once('?').map_or(text, |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        let mut redirect = Self::default();
        let mut description = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = Some(value.into_owned());
            match &*name {
                "code" => redirect.code = value,
                "state" => redirect.state = value,
                "iss" => redirect.issuer = value,
                "error" => redirect.error = value.as_deref().map(one_line),
                "error_description" => description = value.as_deref().map(one_line),
                _ => {}
            }
        }
        if redirect.code.is_none() && redirect.error.is_none() {
            return Err(OAuthError::NoCode);
        }
        if let (Some(error), Some(description)) = (&mut redirect.error, description) {
            error.push_str(": ");
            error.push_str(&description);
        }
        Ok(redirect)
    }

    /// Whether this is the answer to a login that began so. Returns its code.
    pub(super) fn verified_code(
        &self,
        state: &str,
        metadata: &ServerMetadata,
    ) -> Result<String, OAuthError> {
        let given = self.state.as_deref().ok_or(OAuthError::NoState)?;
        if !pkce::constant_time_eq(given, state) {
            return Err(OAuthError::WrongState);
        }
        // Who answers is looked at before what is answered: an error may be forged too.
        let is_promised = metadata.authorization_response_iss_parameter_supported == Some(true);
        match &self.issuer {
            Some(found) if *found != metadata.issuer => {
                return Err(OAuthError::WrongIssuer {
                    expected: metadata.issuer.clone(),
                    found: one_line(found),
                });
            }
            None if is_promised => {
                return Err(OAuthError::NoIssuer {
                    expected: metadata.issuer.clone(),
                });
            }
            _ => {}
        }
        if let Some(error) = &self.error {
            return Err(OAuthError::Denied(error.clone()));
        }
        self.code.clone().ok_or(OAuthError::NoCode)
    }
}

/// Waits for the browser, on this machine alone.
pub(super) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

/// What the browser is still waiting for.
pub(super) struct BrowserReply(Option<TcpStream>);

impl CallbackListener {
    /// Takes a port, 0 for any.
    pub(super) async fn bind(port: u16) -> Result<Self, OAuthError> {
        let taken = |error: std::io::Error| OAuthError::PortInUse {
            port,
            reason: error.to_string(),
        };
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .map_err(taken)?;
        let port = listener.local_addr().map_err(taken)?.port();
        Ok(Self { listener, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the one request that is an answer: at the path `callback`. Browsers ask for icons, too.
    pub(super) async fn wait_for_redirect(
        &self,
        callback: &str,
    ) -> Result<(AuthorizationRedirect, BrowserReply), OAuthError> {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else {
                // Somebody hung up before we looked, or there are no descriptors left for the moment.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            };
            let read = tokio::time::timeout(READ_TIMEOUT, request_target(&mut stream));
            let Ok(Some(target)) = read.await else {
                continue;
            };
            let path = target.split('?').next().unwrap_or_default();
            match AuthorizationRedirect::parse(&target) {
                Ok(redirect) if path == callback => {
                    return Ok((redirect, BrowserReply(Some(stream))));
                }
                _ => write_page(&mut stream, "404 Not Found", &not_found_page()).await,
            }
        }
    }
}

impl BrowserReply {
    /// There is no browser here that waits.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Tells the person at the browser what came of the login of a server.
    pub(super) async fn send(self, server: &ServerName, error: Option<&OAuthError>) {
        let Some(mut stream) = self.0 else {
            return;
        };
        match error {
            None => write_page(&mut stream, "200 OK", &success_page()).await,
            Some(error) => {
                let page = failure_page(server, &error.to_string());
                write_page(&mut stream, "400 Bad Request", &page).await;
            }
        }
    }
}

/// The target of a GET request, once its headers have come.
async fn request_target(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut chunk = [0; 2048];
        let read = stream.read(&mut chunk).await.ok()?;
        if read == 0 || bytes.len() + read > MAX_REQUEST_BYTES {
            return None;
        }
        bytes.extend_from_slice(&chunk[..read]);
    }
    let text = String::from_utf8(bytes).ok()?;
    let target = text.strip_prefix("GET ")?.split(' ').next()?;
    Some(target.to_owned())
}

async fn write_page(stream: &mut TcpStream, status: &str, page: &str) {
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nReferrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // The browser may have disconnected.
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// It worked.
pub(super) fn success_page() -> String {
    render_page(
        "You are logged in",
        "Hermes has what it needs. You can close this window.",
    )
}

/// It did not work, and how to begin again. Somebody else's words may be in the reason.
pub(super) fn failure_page(server: &ServerName, reason: &str) -> String {
    let (reason, server) = (escape_html(reason), escape_html(server.as_str()));
    let text = format!(
        "{reason}</p><p>You can close this window. <code>hermes mcp login {server}</code> begins again."
    );
    render_page("The login did not work", &text)
}

/// Not the address of a login.
pub(super) fn not_found_page() -> String {
    render_page(
        "There is nothing here",
        "This address waits for the reply to a login.",
    )
}

fn render_page(title: &str, text: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font:1.1em system-ui,sans-serif;max-width:32em;margin:15vh auto;padding:0 1em}}</style></head>\
         <body><main><h1>{title}</h1><p>{text}</p></main></body></html>"
    )
}

fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_from_whatever_is_pasted() {
        for text in [
            "http://127.0.0.1:1/callback?code=c%2B1&state=s&iss=https%3A%2F%2Fas",
            " ?code=c%2B1&state=s&iss=https://as ",
            "code=c%2B1&state=s&iss=https://as#fragment",
            "\"https://proxy.example/callback?code=c%2B1&state=s&iss=https://as\"",
        ] {
            let redirect = AuthorizationRedirect::parse(text).unwrap();
            assert_eq!(redirect.code.as_deref(), Some("c+1"), "{text}");
            assert_eq!(redirect.state.as_deref(), Some("s"));
            assert_eq!(redirect.issuer.as_deref(), Some("https://as"));
        }
        assert_eq!(
            AuthorizationRedirect::parse("skip"),
            Err(OAuthError::Cancelled)
        );
        assert_eq!(
            AuthorizationRedirect::parse("hello"),
            Err(OAuthError::NoCode)
        );
        let refused =
            AuthorizationRedirect::parse("?error=access_denied&error_description=no%0Away&state=s")
                .unwrap();
        assert_eq!(refused.error.as_deref(), Some("access_denied: no way"));
    }

    #[tokio::test]
    async fn only_the_callback_is_an_answer() {
        let listener = CallbackListener::bind(0).await.unwrap();
        let port = listener.port();
        let ask = async move |path: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.unwrap();
            reply
        };
        let browser = async {
            assert!(ask("/favicon.ico").await.starts_with("HTTP/1.1 404"));
            assert!(
                ask("/other?code=1&state=2")
                    .await
                    .starts_with("HTTP/1.1 404")
            );
            ask("/callback?code=1&state=2").await
        };
        let waiting = async {
            let (redirect, reply) = listener.wait_for_redirect("/callback").await.unwrap();
            let error = OAuthError::Denied("<script>alert(1)</script>".into());
            reply.send(&ServerName::new("s"), Some(&error)).await;
            redirect
        };
        let (page, redirect) = tokio::join!(browser, waiting);
        assert_eq!(redirect.code.as_deref(), Some("1"));
        assert!(
            page.contains("&lt;script&gt;") && !page.contains("<script>"),
            "{page}"
        );
    }

    #[tokio::test]
    async fn a_port_in_use_is_named_with_what_to_do() {
        let first = CallbackListener::bind(0).await.unwrap();
        let Err(error) = CallbackListener::bind(first.port()).await else {
            panic!("two at one port");
        };
        let text = error.to_string();
        assert!(
            text.contains(&first.port().to_string()) && text.contains("redirect_port"),
            "{text}"
        );
    }

    #[test]
    fn words_of_others_stay_words() {
        let page = failure_page(
            &ServerName::new("<b>"),
            "<img src=x onerror='alert(\"1\")'>&",
        );
        assert!(
            page.contains("&lt;img src=x onerror=&#39;alert(&quot;1&quot;)&#39;&gt;&amp;"),
            "{page}"
        );
        assert!(page.contains("login &lt;b&gt;<"), "{page}");
    }
}
