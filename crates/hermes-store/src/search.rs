//! Full-text search over messages, live and compacted ones.
//!
//! Words are looked up in `messages_fts`; text without spaces between words (Chinese, Japanese, Korean) and parts
//! of words in `messages_fts_trigram`. Both yield their rows by id, so the newest matches come first without
//! sorting the others.

use sqlx::sqlite::SqliteRow;

use crate::{Content, MessageId, Role, SessionId, Store, StoreError, db::row};

mod query;

use query::SearchPlan;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// Words that must all occur; those in double quotes next to each other. Nothing else has a meaning.
    pub text: String,
    /// How words are compared.
    pub matching: SearchMatching,
    /// Only messages of these roles; all, if empty.
    pub roles: Vec<Role>,
    /// Only this session.
    pub session: Option<SessionId>,
    /// Not this session.
    pub exclude_session: Option<SessionId>,
    /// Only sessions of these sources; all, if empty.
    pub sources: Vec<String>,
    /// No sessions of these sources.
    pub excluded_sources: Vec<String>,
    /// What comes first.
    pub order: SearchOrder,
    /// Maximum number.
    pub limit: u32,
    /// Number of entries to skip.
    pub offset: u32,
}

impl SearchQuery {
    /// The 20 newest messages with these words.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            matching: SearchMatching::Auto,
            roles: Vec::new(),
            session: None,
            exclude_session: None,
            sources: Vec::new(),
            excluded_sources: Vec::new(),
            order: SearchOrder::Newest,
            limit: 20,
            offset: 0,
        }
    }
}

/// How the words of a search are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMatching {
    /// As whole words; where nothing is found, as parts of words.
    Auto,
    /// As whole words.
    Words,
    /// As parts of words, three characters or more.
    Substrings,
}

/// What comes first among the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchOrder {
    /// The last written. The quickest: only as many matches are looked at as are returned.
    Newest,
    /// The first written.
    Oldest,
    /// The best match. Every match is weighed.
    Relevance,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    pub message: MessageId,
    pub session: SessionId,
    pub role: Role,
    /// Seconds since 1970.
    pub timestamp: f64,
    /// The place where it matches, with `>>>` and `<<<` around the match.
    pub snippet: String,
    /// The tool, in a tool's result.
    pub tool_name: Option<String>,
    /// Where the session takes place.
    pub source: String,
    /// The session's title.
    pub title: Option<String>,
    /// When the session began.
    pub session_started: f64,
}

/// What is read of a hit, and the filters: ?2 roles, ?3 session, ?4 excluded session, ?5 sources, ?8 excluded sources.
macro_rules! search_sql {
    ($snippet:literal, $from:literal, $condition:literal, $order:literal) => {
        concat!(
            "SELECT m.id, m.session_id, m.role, m.timestamp, m.tool_name, s.source, s.title, s.started_at, ",
            $snippet,
            " AS snippet FROM ",
            $from,
            // The cross joins fix the order: matches first, then their rows.
            " CROSS JOIN {sessions} AS s ON s.id = m.session_id WHERE ",
            $condition,
            // A compaction copies what it retains: of the same message, the last copy counts.
            " AND (m.active = 1 OR m.compacted = 1 AND NOT EXISTS (SELECT 1 FROM {messages} AS c \
             WHERE c.session_id = m.session_id AND c.timestamp = m.timestamp AND c.id > m.id \
             AND c.role = m.role AND c.content IS m.content AND (c.active = 1 OR c.compacted = 1))) \
             AND (?2 = '[]' OR m.role IN (SELECT value FROM json_each(?2))) \
             AND (?3 IS NULL OR m.session_id = ?3) AND (?4 IS NULL OR m.session_id != ?4) \
             AND (?5 = '[]' OR s.source IN (SELECT value FROM json_each(?5))) \
             AND s.source NOT IN (SELECT value FROM json_each(?8)) ORDER BY ",
            $order,
            " LIMIT ?6 OFFSET ?7"
        )
    };
}

macro_rules! words_sql {
    ($order:literal) => {
        search_sql!(
            "snippet(messages_fts, 0, '>>>', '<<<', '...', 40)",
            "messages_fts CROSS JOIN {messages} AS m ON m.id = messages_fts.rowid",
            "messages_fts MATCH ?1",
            $order
        )
    };
}

macro_rules! trigram_sql {
    ($order:literal) => {
        search_sql!(
            "snippet(messages_fts_trigram, 0, '>>>', '<<<', '...', 64)",
            "messages_fts_trigram CROSS JOIN {messages} AS m ON m.id = messages_fts_trigram.rowid",
            "messages_fts_trigram MATCH ?1",
            $order
        )
    };
}

/// Looks at every message: for what neither table can find. The longest term first, then the others.
macro_rules! scan_sql {
    ($order:literal) => {
        search_sql!(
            "m.content",
            "{messages} AS m",
            "instr(m.content, json_extract(?1, '$[0]')) > 0 AND NOT EXISTS (\
             SELECT 1 FROM json_each(?1) AS term WHERE instr(lower(m.content), lower(term.value)) = 0)",
            $order
        )
    };
}

impl Store {
    /// The messages that match.
    pub async fn search(&self, search: &SearchQuery) -> Result<Vec<SearchHit>, StoreError> {
        let terms = query::parse_terms(&search.text);
        let plan = query::choose_plan(&terms, search.matching);
        let hits = self.run_search_plan(search, &terms, plan).await?;
        let widen = search.matching == SearchMatching::Auto
            && plan == SearchPlan::Words
            && hits.is_empty()
            && search.offset == 0
            && query::has_trigrams(&terms);
        if widen {
            return self
                .run_search_plan(search, &terms, SearchPlan::Trigrams)
                .await;
        }
        Ok(hits)
    }

    async fn run_search_plan(
        &self,
        search: &SearchQuery,
        terms: &[String],
        plan: SearchPlan,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let plan = match plan {
            SearchPlan::Words if !self.layout().has("messages_fts") => SearchPlan::Scan,
            SearchPlan::Trigrams if !self.layout().has("messages_fts_trigram") => SearchPlan::Scan,
            plan => plan,
        };
        let sql = match (plan, search.order) {
            (SearchPlan::Nothing, _) => return Ok(Vec::new()),
            (SearchPlan::Words, SearchOrder::Newest) => words_sql!("messages_fts.rowid DESC"),
            (SearchPlan::Words, SearchOrder::Oldest) => words_sql!("messages_fts.rowid"),
            (SearchPlan::Words, SearchOrder::Relevance) => words_sql!("messages_fts.rank"),
            (SearchPlan::Trigrams, SearchOrder::Newest) => {
                trigram_sql!("messages_fts_trigram.rowid DESC")
            }
            (SearchPlan::Trigrams, SearchOrder::Oldest) => {
                trigram_sql!("messages_fts_trigram.rowid")
            }
            (SearchPlan::Trigrams, SearchOrder::Relevance) => {
                trigram_sql!("messages_fts_trigram.rank")
            }
            (SearchPlan::Scan, SearchOrder::Oldest) => scan_sql!("m.id"),
            (SearchPlan::Scan, _) => scan_sql!("m.id DESC"),
        };
        let first = match plan {
            SearchPlan::Scan => query::longest_first(terms),
            _ => query::quote_terms(terms),
        };
        let roles: Vec<_> = search.roles.iter().map(Role::as_str).collect();
        let rows = sqlx::query(self.sql(sql))
            .bind(first)
            .bind(serde_json::json!(roles).to_string())
            .bind(search.session.as_ref().map(SessionId::as_str))
            .bind(search.exclude_session.as_ref().map(SessionId::as_str))
            .bind(serde_json::json!(search.sources).to_string())
            .bind(search.limit)
            .bind(search.offset)
            .bind(serde_json::json!(search.excluded_sources).to_string())
            .fetch_all(self.readers())
            .await
            .map_err(|error| self.error(error))?;
        rows.iter()
            .map(|found| read_hit(found, plan, terms))
            .collect::<Result<_, _>>()
            .map_err(|error| self.error(error))
    }
}

fn read_hit(
    found: &SqliteRow,
    plan: SearchPlan,
    terms: &[String],
) -> Result<SearchHit, sqlx::Error> {
    let snippet = row::required_text(found, "snippet")?;
    Ok(SearchHit {
        message: MessageId(row::integer(found, "id")?),
        session: SessionId::from_stored(row::required_text(found, "session_id")?),
        role: row::required_text(found, "role")?.into(),
        timestamp: row::real(found, "timestamp")?.unwrap_or_default(),
        snippet: match plan {
            SearchPlan::Scan => query::snippet_around(&Content::decode(snippet).text(), terms),
            // The mark of structured content is not text.
            _ => snippet.replace('\0', "").trim().to_owned(),
        },
        tool_name: row::text(found, "tool_name")?,
        source: row::required_text(found, "source")?,
        title: row::text(found, "title")?,
        session_started: row::real(found, "started_at")?.unwrap_or_default(),
    })
}
