//! A headless browser: follows redirects over plain HTTP.

use std::{
    io::{Error, Read as _, Result, Write as _},
    net::TcpStream,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use url::Url;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Where a visit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitedPage {
    /// The last address.
    pub url: String,
    pub status: u16,
    /// Its headers and the page.
    pub text: String,
}

/// A browser whose user agrees to everything. It goes to a page in two steps, for logins that send somebody there and
/// wait for the answer only then.
#[derive(Debug, Default)]
pub struct ConsentingBrowser(Mutex<Option<String>>);

impl ConsentingBrowser {
    /// Enters an address.
    pub fn set_url(&self, url: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(url.to_owned());
    }

    /// Opens the address that was entered, once, and follows it to the end.
    pub async fn follow(&self) -> Result<()> {
        let url = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(url) = url else {
            return Ok(());
        };
        let visit = tokio::task::spawn_blocking(move || browse(&url)).await;
        visit.map_err(Error::other)?.map(drop)
    }
}

/// Opens an address and follows redirects to the end.
pub fn browse(url: &str) -> Result<VisitedPage> {
    let mut url = Url::parse(url).map_err(Error::other)?;
    for _ in 0..MAX_REDIRECTS {
        let visit = fetch_page(&url)?;
        match visit.target(&url) {
            Some(next) => url = next,
            None => return Ok(visit),
        }
    }
    Err(Error::other("too many redirects"))
}

/// Opens an address and gives back where it leads next, which a person would copy out of the browser.
pub fn first_redirect(url: &str) -> Result<String> {
    let url = Url::parse(url).map_err(Error::other)?;
    let visit = fetch_page(&url)?;
    let target = visit.target(&url);
    target.map_or_else(
        || Err(Error::other(format!("no redirect: {}", visit.text))),
        |target| Ok(target.into()),
    )
}

impl VisitedPage {
    fn target(&self, base: &Url) -> Option<Url> {
        let headers = self.text.lines().take_while(|line| !line.is_empty());
        let mut headers = headers.filter_map(|line| line.split_once(": "));
        let (_, target) = headers.find(|(name, _)| name.eq_ignore_ascii_case("location"))?;
        base.join(target.trim()).ok()
    }
}

fn fetch_page(url: &Url) -> Result<VisitedPage> {
    let text = fetch_redirect(url)?;
    let status = text.split(' ').nth(1);
    let status = status.and_then(|status| status.parse().ok());
    Ok(VisitedPage {
        url: url.to_string(),
        status: status.ok_or_else(|| Error::other("not an HTTP response"))?,
        text,
    })
}

fn fetch_redirect(url: &Url) -> Result<String> {
    // A name may stand for several addresses, and not all of them answer.
    let mut connection = TcpStream::connect(&*url.socket_addrs(|| None)?)?;
    let address = connection.peer_addr()?;
    connection.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let query = url.query().map(|query| format!("?{query}"));
    write!(
        connection,
        "GET {}{} HTTP/1.1\r\nHost: {address}\r\nAccept: text/html\r\nConnection: close\r\n\r\n",
        url.path(),
        query.unwrap_or_default(),
    )?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
