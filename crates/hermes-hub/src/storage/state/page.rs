//! Pagination.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::StateError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub limit: u32,
    /// The cursor of the previous page; `None` for the first.
    pub cursor: Option<String>,
}

impl Default for Page {
    fn default() -> Self {
        Self::first(100)
    }
}

impl Page {
    pub fn first(limit: u32) -> Self {
        Self {
            limit,
            cursor: None,
        }
    }

    pub fn after(limit: u32, cursor: impl Into<String>) -> Self {
        Self {
            limit,
            cursor: Some(cursor.into()),
        }
    }

    /// The key of the last item of the previous page, with one part for each column of the order.
    pub(crate) fn cursor_key<const PARTS: usize>(
        &self,
    ) -> Result<Option<[String; PARTS]>, StateError> {
        let Some(cursor) = &self.cursor else {
            return Ok(None);
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(cursor)
            .map_err(|_| StateError::BadCursor)?;
        let parts: Vec<String> =
            serde_json::from_slice(&bytes).map_err(|_| StateError::BadCursor)?;
        parts
            .try_into()
            .map(Some)
            .map_err(|_| StateError::BadCursor)
    }

    /// One more than requested, to know whether there are more.
    pub(crate) fn fetch_limit(&self) -> i64 {
        i64::from(self.limit.clamp(1, 500)) + 1
    }
}

/// A cursor with these parts, which [`Page::cursor_key`] reads.
pub(super) fn encode_cursor(key: &[String]) -> Option<String> {
    let key = serde_json::to_vec(key).ok()?;
    Some(URL_SAFE_NO_PAD.encode(key))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paged<T> {
    pub items: Vec<T>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

impl<T> Paged<T> {
    /// From the fetched items, including one too many.
    pub(crate) fn from_fetched<const PARTS: usize>(
        mut items: Vec<T>,
        page: &Page,
        key: impl Fn(&T) -> [String; PARTS],
    ) -> Self {
        let limit = usize::try_from(page.fetch_limit() - 1).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items
            .last()
            .filter(|_| more)
            .and_then(|last| encode_cursor(&key(last)));
        Self { items, next }
    }

    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Paged<U> {
        Paged {
            items: self.items.into_iter().map(change).collect(),
            next: self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_on_from_the_last_item() {
        let page = Page::first(2);
        let paged = Paged::from_fetched(vec!["a", "b", "c"], &page, |item| [(*item).to_owned()]);
        assert_eq!(paged.items, ["a", "b"]);
        let next = Page::after(2, paged.next.unwrap());
        assert_eq!(next.cursor_key::<1>().unwrap().unwrap(), ["b"]);
        assert!(
            next.cursor_key::<2>().is_err(),
            "a cursor of another list was taken"
        );
    }

    #[test]
    fn the_last_piece_has_no_cursor() {
        let paged = Paged::from_fetched(vec![1, 2], &Page::first(2), |item| [item.to_string()]);
        assert_eq!((paged.items.len(), paged.next), (2, None));
    }

    #[test]
    fn what_is_not_a_cursor_is_refused() {
        for text in ["", "x", "bm8", "WzFd"] {
            assert!(
                Page::after(1, text).cursor_key::<1>().is_err(),
                "{text:?} was taken"
            );
        }
    }
}
