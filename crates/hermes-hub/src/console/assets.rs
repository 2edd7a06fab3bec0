//! The files that pages load. Their names carry a hash, so that browsers may keep them for ever.
//!
//! They are sent compressed, by zstd, which the Hub has for other things: browsers accept it over https and from their own
//! machine. Pages are not: they contain the token of the session's forms beside texts of others, and the length of what is
//! compressed together tells of both.

use std::sync::{LazyLock, OnceLock};

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hermes_config::to_hex;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
}

/// Beyond this, files hardly become smaller, and the first reader waits.
const COMPRESSION_LEVEL: i32 = 12;

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: &[Asset] = &[
    Asset {
        name: "console.css",
        media_type: STYLE,
        content: include_str!("assets/console.css"),
    },
    Asset {
        name: "console.js",
        media_type: SCRIPT,
        content: include_str!("assets/console.js"),
    },
    Asset {
        name: "run.js",
        media_type: SCRIPT,
        content: include_str!("assets/run.js"),
    },
    Asset {
        name: "chart.js",
        media_type: SCRIPT,
        content: include_str!("assets/chart.js"),
    },
    // uPlot 1.6.32 of npm, unchanged; MIT.
    Asset {
        name: "uPlot.iife.min.js",
        media_type: SCRIPT,
        content: include_str!("assets/uPlot.iife.min.js"),
    },
    Asset {
        name: "uPlot.min.css",
        media_type: STYLE,
        content: include_str!("assets/uPlot.min.css"),
    },
    // htmx.org 4.0.1 of npm, unchanged.
    Asset {
        name: "htmx.min.js",
        media_type: SCRIPT,
        content: include_str!("assets/htmx.min.js"),
    },
    Asset {
        name: "icon.svg",
        media_type: "image/svg+xml",
        content: include_str!("assets/icon.svg"),
    },
];

/// The addresses of the files, in their order.
static ADDRESSES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let addresses = ASSETS.iter().map(|asset| {
        let hash = to_hex(&Sha256::digest(asset.content)[..6]);
        let (stem, extension) = asset.name.rsplit_once('.').unwrap_or((asset.name, ""));
        format!("/assets/{stem}.{hash}.{extension}")
    });
    addresses.collect()
});

/// Where a file is.
pub(super) fn address(name: &str) -> &'static str {
    let at = ASSETS.iter().position(|asset| asset.name == name);
    at.map_or("", |at| ADDRESSES[at].as_str())
}

/// The files as they are sent to browsers that take zstd, each made when it is first asked for.
static COMPRESSED: [OnceLock<Option<Bytes>>; ASSETS.len()] =
    [const { OnceLock::new() }; ASSETS.len()];

/// A file in a form that a browser accepts, if it is smaller.
fn compressed(at: usize, accepted: &HeaderMap) -> Option<Bytes> {
    let accepted = accepted.get(header::ACCEPT_ENCODING)?.to_str().ok()?;
    let takes_it = accepted.split(',').any(|encoding| {
        let (name, weight) = encoding.split_once(';').unwrap_or((encoding, ""));
        let weight = weight.trim().strip_prefix("q=");
        let weight = weight.and_then(|weight| weight.parse::<f32>().ok());
        let is_refused = weight.is_some_and(|weight| weight <= 0.0);
        name.trim().eq_ignore_ascii_case("zstd") && !is_refused
    });
    if !takes_it {
        return None;
    }
    let made = COMPRESSED[at].get_or_init(|| {
        let content = ASSETS[at].content.as_bytes();
        let made = zstd::bulk::compress(content, COMPRESSION_LEVEL).ok()?;
        (made.len() < content.len()).then(|| made.into())
    });
    made.clone()
}

pub(super) async fn serve(Path(file): Path<String>, request: HeaderMap) -> Response {
    let wanted = format!("/assets/{file}");
    let Some(at) = ADDRESSES.iter().position(|address| *address == wanted) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, ASSETS[at].media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let mut response = match compressed(at, &request) {
        Some(content) => {
            let encoding = [(header::CONTENT_ENCODING, "zstd")];
            (headers, encoding, content).into_response()
        }
        None => (headers, ASSETS[at].content).into_response(),
    };
    let differs_by = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, differs_by);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendored_files_are_those_of_the_package() {
        for (name, hash) in [
            (
                "uPlot.iife.min.js",
                "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
            ),
            (
                "uPlot.min.css",
                "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
            ),
            (
                "htmx.min.js",
                "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
            ),
        ] {
            let asset = ASSETS.iter().find(|asset| asset.name == name).unwrap();
            assert_eq!(to_hex(&Sha256::digest(asset.content)), hash, "{name}");
        }
    }
}
