//! The person at this terminal, on the way through a login.

use std::{
    io::IsTerminal,
    sync::atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use hermes_config::ServerName;
use hermes_mcp::oauth::{
    AuthorizationPrompt, ClientIdentity, DeviceCode, LoginFlow, LoginMode, LoginUi, OAuthError,
};
use tokio_util::sync::CancellationToken;

use crate::{
    failure::{Failure, FailureKind},
    output::{Output, printable},
    question,
    question::{Questions, browser},
};

/// Whether a browser may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands::mcp) enum BrowserMode {
    Open,
    KeepClosed,
}

/// Who logs in.
pub(super) struct TerminalLoginUi {
    output: Output,
    server: ServerName,
    opens_browser: bool,
    has_terminal: bool,
    interrupted: AtomicBool,
}

impl TerminalLoginUi {
    pub(super) fn new(
        output: Output,
        server: ServerName,
        browser: BrowserMode,
        flow: Option<LoginFlow>,
    ) -> Self {
        let may_open = browser == BrowserMode::Open && flow != Some(LoginFlow::Paste);
        Self {
            output,
            server,
            opens_browser: may_open && (browser::has_screen() || flow == Some(LoginFlow::Browser)),
            has_terminal: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            interrupted: AtomicBool::new(false),
        }
    }

    /// Whether the person pressed Ctrl-C.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Asks in a thread of its own, since reading a line blocks. Dropped, the question is taken back.
    async fn prompt<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Option<T> {
        let stop = CancellationToken::new();
        let _stopper = stop.clone().drop_guard();
        let outcome =
            tokio::task::spawn_blocking(move || question::with_cancellation(stop, question)).await;
        match outcome {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(failure)) => {
                if failure.kind == FailureKind::Interrupted {
                    self.interrupted.store(true, Ordering::Relaxed);
                }
                None
            }
            Err(_) => None,
        }
    }
}

impl LoginUi for TerminalLoginUi {
    fn mode(&self) -> LoginMode {
        if self.has_terminal || self.opens_browser {
            LoginMode::Interactive
        } else {
            LoginMode::Deferred
        }
    }

    fn open_url<'a>(&'a self, visit: &'a AuthorizationPrompt) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let output = self.output;
            output.note(format!(
                "Log in to `{}` at {}:\n\n  {}\n",
                self.server,
                printable(&visit.issuer),
                printable(&visit.url)
            ));
            if self.opens_browser {
                let url = visit.url.clone();
                let opened = tokio::task::spawn_blocking(move || browser::open_url(&url)).await;
                if opened.unwrap_or(false) {
                    output.note("Your browser shows that page; go on there.");
                } else {
                    output.note("No browser could be started; open that address yourself.");
                }
            } else {
                output.note("Open that address in a browser, on any machine.");
            }
            if self.has_terminal {
                output.note(format!(
                    "If the browser ends at an address that begins with {} and shows an error, paste that address here; \
                     `skip` leaves.",
                    visit.redirect_uri
                ));
            }
        })
    }

    fn read_redirect(&self) -> BoxFuture<'_, Result<String, OAuthError>> {
        Box::pin(async move {
            if !self.has_terminal {
                return std::future::pending().await;
            }
            loop {
                let line = self
                    .prompt(|| Questions::new(false).text("Address", None, ""))
                    .await;
                let Some(line) = line else {
                    return Err(OAuthError::Cancelled);
                };
                if !line.trim().is_empty() {
                    return Ok(line);
                }
            }
        })
    }

    fn reject_redirect(&self, error: &OAuthError) {
        self.output.note(match error {
            OAuthError::NoState => "That address has no `state`; paste all of it.",
            OAuthError::WrongState => {
                "That is the end of another login; open the address above and paste where that one ends."
            }
            OAuthError::NoIssuer { .. } => "That address has no `iss`; paste all of it.",
            _ => "That address has no `code`; paste all of it.",
        });
    }

    fn show_device_code<'a>(&'a self, code: &'a DeviceCode) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.output.note(format!(
                "Log in to `{}`: open\n\n  {}\n\nin a browser, on any machine, and enter the code\n\n  {}\n\nIt holds for {} \
                 minutes; this is waiting.",
                self.server,
                printable(&code.verification_uri),
                printable(&code.user_code),
                code.expires_in.div_ceil(60)
            ));
            if let Some(url) = code.verification_uri_complete.clone()
                && self.opens_browser
            {
                let _ = tokio::task::spawn_blocking(move || browser::open_url(&url)).await;
            }
        })
    }

    fn request_client<'a>(
        &'a self,
        issuer: &'a str,
        redirect_uri: &'a str,
    ) -> BoxFuture<'a, Option<ClientIdentity>> {
        Box::pin(async move {
            if !self.has_terminal {
                return None;
            }
            self.output.note(format!(
                "{} does not support client registration. Register a client there, with the redirect address\n\n  {redirect_uri}\n\nand \
                 give its id. It is kept for the next time.",
                printable(issuer)
            ));
            self.prompt(|| {
                let questions = Questions::new(false);
                let id = questions.text("Client id", None, "")?;
                let secret = questions.hidden("Client secret (empty if there is none)", "")?;
                Ok(ClientIdentity {
                    id,
                    secret: Some(secret.expose().clone()).filter(|secret| !secret.is_empty()),
                })
            })
            .await
            .filter(|client| !client.id.is_empty())
        })
    }
}
