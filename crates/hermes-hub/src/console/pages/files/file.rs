//! One file: the beginning of a text, an image, or only its size; and what can be done with it.

use askama::Template;

use hermes_config::detect_image_type;

use super::{Crumb, FileTree, TreeFacts, last_segment, parent_of, send::read_start};
use crate::{
    Problem,
    console::{frame::Frame, pages::render, request::PageRequest, view::bytes},
};

/// What is read of a file for its page.
const PREVIEW_BYTES: u64 = 256 * 1024;
/// A larger image is only downloaded.
const MAX_IMAGE_BYTES: u64 = 20 << 20;

#[derive(Template)]
#[template(path = "pages/files/file.html")]
struct FilePage<'a> {
    page: Frame,
    tree: &'a FileTree,
    crumbs: Vec<Crumb>,
    path: &'a str,
    name: &'a str,
    size: u64,
    etag: String,
    /// How much of a text is shown.
    shown: String,
    content: FilePreview,
    /// Lines of the field for the text.
    rows: usize,
    /// Forms send line ends of one kind.
    loses_line_ends: bool,
    is_editing: bool,
    edit: String,
    download: String,
    image: String,
    /// The directory that it is in.
    above: String,
    may_write: bool,
}

enum FilePreview {
    Text {
        text: String,
        /// Whether the file has more.
        is_cut: bool,
    },
    Image,
    /// Neither.
    Other,
}

impl FilePage<'_> {
    /// The text, if it is all there and can be changed.
    fn whole_text(&self) -> Option<&str> {
        match &self.content {
            FilePreview::Text {
                text,
                is_cut: false,
            } if self.may_write => Some(text),
            _ => None,
        }
    }

    fn after_move(&self) -> &str {
        &self.above
    }

    fn after_remove(&self) -> &str {
        &self.above
    }
}

pub(super) async fn show(
    request: &PageRequest,
    tree: &FileTree,
    facts: &TreeFacts,
    path: &str,
) -> Result<String, Problem> {
    let start = read_start(request, tree, path, PREVIEW_BYTES).await?;
    let content = preview(&start.bytes, start.size);
    let text = match &content {
        FilePreview::Text { text, .. } => text.as_str(),
        FilePreview::Image | FilePreview::Other => "",
    };
    let mut page = Frame::new(request, last_segment(path));
    // Nothing says that a file has changed.
    page.live = None;
    render(&FilePage {
        page,
        tree,
        crumbs: tree.crumbs(path, &facts.title),
        path,
        name: last_segment(path),
        size: start.size,
        etag: start.etag,
        shown: bytes(request.texts, PREVIEW_BYTES),
        rows: text.lines().count().clamp(8, 40),
        loses_line_ends: text.contains('\r'),
        content,
        is_editing: request.query("edit").is_some(),
        edit: request.address_with("edit", "1"),
        download: tree.address("files/raw", &[("path", path)]),
        image: tree.address("files/raw", &[("path", path), ("show", "1")]),
        above: tree.address_of(parent_of(path)),
        may_write: facts.may_write,
    })
}

fn preview(start: &[u8], size: u64) -> FilePreview {
    if detect_image_type(start).is_some() && size <= MAX_IMAGE_BYTES {
        return FilePreview::Image;
    }
    let is_cut = size > start.len() as u64;
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // A character may be cut.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return FilePreview::Other,
    };
    if text.contains('\0') {
        return FilePreview::Other;
    }
    FilePreview::Text {
        text: text.to_owned(),
        is_cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_in_a_character_stays_text() {
        let FilePreview::Text { text, is_cut } = preview(&"aä".as_bytes()[..2], 3) else {
            panic!("not a text");
        };
        assert_eq!((text.as_str(), is_cut), ("a", true));
        assert!(matches!(preview(b"a\xc3", 2), FilePreview::Other));
        assert!(matches!(preview(b"a\0b", 3), FilePreview::Other));
        assert!(matches!(preview(b"GIF89a", 6), FilePreview::Image));
    }
}
