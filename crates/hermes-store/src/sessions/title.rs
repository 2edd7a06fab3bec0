//! Titles: cleaned, short, and held by one session at a time.

use sqlx::SqliteConnection;

use super::{Session, session_columns};
use crate::{SessionId, Store, StoreError};

const MAX_TITLE_LENGTH: usize = 100;

/// A title without control and invisible characters and with single spaces. None if nothing is left.
pub fn clean_title(title: &str) -> Result<Option<String>, StoreError> {
    let visible: String = title
        .chars()
        .filter(|c| c.is_whitespace() || !(c.is_control() || is_invisible(*c)))
        .collect();
    let words: Vec<_> = visible.split_whitespace().collect();
    let title = words.join(" ");
    let length = title.chars().count();
    if length > MAX_TITLE_LENGTH {
        return Err(StoreError::TitleTooLong { length });
    }
    Ok((!title.is_empty()).then_some(title))
}

/// Zero-width characters, direction marks, line separators and placeholders.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffc}')
}

impl Store {
    /// Gives a session a title, or takes it away with an empty one. Tells what the title is now.
    pub async fn set_title(
        &self,
        id: &SessionId,
        title: &str,
    ) -> Result<Option<String>, StoreError> {
        let title = clean_title(title)?;
        let mut write = self.begin().await?;
        self.write_title(&mut write, id, title.as_deref()).await?;
        write.commit().await?;
        Ok(title)
    }

    /// Gives a session a title unless it has one already. Tells whether it was given.
    pub async fn set_first_title(&self, id: &SessionId, title: &str) -> Result<bool, StoreError> {
        let title = clean_title(title)?;
        let mut write = self.begin().await?;
        let untitled = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND title IS NULL)";
        let is_untitled: bool = sqlx::query_scalar(untitled)
            .bind(id.as_str())
            .fetch_one(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        if is_untitled {
            self.write_title(&mut write, id, title.as_deref()).await?;
            write.commit().await?;
        }
        Ok(is_untitled)
    }

    async fn write_title(
        &self,
        connection: &mut SqliteConnection,
        id: &SessionId,
        title: Option<&str>,
    ) -> Result<(), StoreError> {
        if let Some(title) = title {
            let holder = take_title_from_ancestor(connection, id, title).await;
            if let Some(holder) = holder.map_err(|error| self.error(error))? {
                let title = title.to_owned();
                return Err(StoreError::TitleTaken { title, holder });
            }
        }
        let done = sqlx::query("UPDATE sessions SET title = ?2 WHERE id = ?1")
            .bind(id.as_str())
            .bind(title)
            .execute(connection)
            .await
            .map_err(|error| self.error(error))?;
        super::require_row(done.rows_affected(), id)
    }

    /// The session of that title; of `title #2`, `title #3` and so on the newest, which continues the others.
    pub async fn session_by_title(&self, title: &str) -> Result<Option<Session>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM {sessions} AS s WHERE s.title = ?1 OR s.title LIKE ?2 ESCAPE '\\' \
             ORDER BY s.title = ?1, s.started_at DESC LIMIT 1"
        );
        let escaped = title
            .replace('\\', "\\\\")
            .replace('%', "\\%")
            .replace('_', "\\_");
        let found = sqlx::query(self.sql(SQL))
            .bind(title)
            .bind(format!("{escaped} #%"))
            .fetch_optional(self.readers())
            .await;
        self.read_session(found)
    }
}

/// Who else has the title. A session that this one continues gives it up: nobody sees that one any more.
async fn take_title_from_ancestor(
    connection: &mut SqliteConnection,
    id: &SessionId,
    title: &str,
) -> Result<Option<SessionId>, sqlx::Error> {
    let holder: Option<String> =
        sqlx::query_scalar("SELECT id FROM sessions WHERE title = ?1 AND id != ?2")
            .bind(title)
            .bind(id.as_str())
            .fetch_optional(&mut *connection)
            .await?;
    let Some(holder) = holder else {
        return Ok(None);
    };
    let released = sqlx::query(
        "UPDATE sessions SET title = NULL WHERE id = ?2 AND id IN (\
         WITH RECURSIVE line(id) AS (\
         SELECT ?1 UNION SELECT parent.id FROM line JOIN sessions AS child ON child.id = line.id \
         JOIN sessions AS parent ON parent.id = child.parent_session_id \
         WHERE parent.end_reason = 'compression') SELECT id FROM line)",
    )
    .bind(id.as_str())
    .bind(&holder)
    .execute(connection)
    .await?
    .rows_affected();
    Ok((released == 0).then(|| SessionId::from_stored(holder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_lose_what_cannot_be_seen() {
        let clean = |title| clean_title(title).unwrap();
        assert_eq!(
            clean("  a\u{200b}b \n\t c\u{202e}\0 ").as_deref(),
            Some("ab c")
        );
        assert_eq!(clean("\u{feff} \u{7}"), None);
        assert_eq!(clean("émoji 😀 字").as_deref(), Some("émoji 😀 字"));
    }

    #[test]
    fn a_hundred_characters_fit_and_no_more() {
        assert_eq!(
            clean_title(&"字".repeat(100))
                .unwrap()
                .unwrap()
                .chars()
                .count(),
            100
        );
        assert!(matches!(
            clean_title(&"x".repeat(101)),
            Err(StoreError::TitleTooLong { length: 101 })
        ));
        let padded = format!("{}{}", "x".repeat(100), "\u{200b}".repeat(50));
        assert!(clean_title(&padded).is_ok());
    }
}
