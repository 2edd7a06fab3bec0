//! What runs used: counted when they end, by day, tenant and model.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page_request;
use crate::{
    Problem, TenantId,
    api_types::{Run, Time, UsageDay, UsageGroup},
    service::call::{Call, Reply, ReplyBody},
    settings::ModelPrice,
    storage::state::{Page, Paged, State, StateError, UsageQuery, UsageSum},
};

/// Days that are shown where `from` is absent, today included.
const DEFAULT_DAYS: i64 = 30;
const MAX_DAYS: i64 = 3660;
const MILLION: f64 = 1_000_000.0;

/// The format of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UsageFormat {
    /// JSON.
    Json,
    /// Comma-separated values, with a line of names.
    Csv,
}

/// What usage is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetUsage {
    /// What is summed up: by `tenant`, `model` or `day`; by tenant if absent.
    by: Option<UsageGroup>,
    /// The first day, such as `2026-11-01`, in UTC; 29 days before the last one if absent.
    from: Option<String>,
    /// The last day, included; today if absent.
    to: Option<String>,
    /// Only this tenant.
    tenant: Option<TenantId>,
    /// `csv` for comma-separated values.
    format: Option<UsageFormat>,
    /// With `by=tenant`: how many tenants are looked at, 1 to 500; all of them if absent.
    limit: Option<u32>,
    /// With `by=tenant`: the `nextCursor` of the page before.
    cursor: Option<String>,
}

/// What was used.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageReport {
    /// What is summed up by.
    by: UsageGroup,
    /// The first day.
    from: String,
    /// The last day.
    to: String,
    /// One row for each tenant, model or day that used something.
    usage: Vec<UsageRow>,
    /// All of them together, those of other pages included.
    total: UsageCounts,
    /// Where the next tenants are, if there are more.
    next_cursor: Option<String>,
}

/// What one tenant, or one model, used; or what was used on one day.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct UsageRow {
    /// The tenant, the model or the day. A model that the agent did not name is empty.
    key: String,
    #[serde(flatten)]
    counts: UsageCounts,
}

/// Counts.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageCounts {
    /// Runs that ended.
    runs: u64,
    /// Tools that they called.
    tool_calls: u64,
    /// Tokens in, cached ones included.
    input_tokens: u64,
    /// Tokens out.
    output_tokens: u64,
    /// Tokens of the input that came from a cache.
    cached_tokens: u64,
    /// What they cost, by `usage.prices` in hub.yaml; `null` if a model has no price there.
    cost: Option<f64>,
}

pub(crate) async fn get(call: Call, input: GetUsage) -> Result<Reply, Problem> {
    let by = input.by.unwrap_or(UsageGroup::Tenant);
    let last = match &input.to {
        Some(text) => parse_day("to", text)?,
        None => UsageDay::of(Time::now()),
    };
    let first = match &input.from {
        Some(text) => parse_day("from", text)?,
        None => UsageDay(last.0 - (DEFAULT_DAYS - 1)),
    };
    if first > last || last.0 - first.0 > MAX_DAYS {
        let message = "`from` is not after `to`, and at most ten years before it";
        return Err(Problem::invalid(message).with_detail("from", "out of range"));
    }
    let mut query = UsageQuery {
        by,
        first,
        last,
        only: match (input.tenant, call.principal().visible_tenants()) {
            (Some(tenant), Some(visible)) if !visible.contains(&tenant) => Some(Vec::new()),
            (Some(tenant), _) => Some(vec![tenant]),
            (None, visible) => visible,
        },
    };
    let state = call.hub.state();
    let settings = call.hub.settings();
    let prices = &settings.usage_prices;
    let (mut paged_total, mut next_cursor) = (None, None);
    if input.limit.is_some() || input.cursor.is_some() {
        if by != UsageGroup::Tenant {
            let message = "`limit` and `cursor` are for `by=tenant`; leave them out, or choose it";
            return Err(Problem::invalid(message).with_detail("by", "has no pages"));
        }
        let page = page_request(input.limit, input.cursor)?;
        let whole = UsageQuery {
            by: UsageGroup::Day,
            ..query.clone()
        };
        let days = sum_up(UsageGroup::Day, &state.run_usage(&whole).await?, prices);
        paged_total = Some(add_up(&days));
        let tenants = page_tenants(state, query.only, &page).await?;
        query.only = Some(tenants.items);
        next_cursor = tenants.next;
    }
    let usage = sum_up(by, &state.run_usage(&query).await?, prices);
    if input.format == Some(UsageFormat::Csv) {
        return Ok(csv_reply(by, &usage));
    }
    Reply::json(&UsageReport {
        by,
        from: first.to_string(),
        to: last.to_string(),
        total: paged_total.unwrap_or_else(|| add_up(&usage)),
        usage,
        next_cursor,
    })
}

/// A page of the tenants that have ever used something, by id. `only` names those that may be seen.
async fn page_tenants(
    state: &dyn State,
    only: Option<Vec<TenantId>>,
    page: &Page,
) -> Result<Paged<TenantId>, Problem> {
    let after = match page.cursor_key::<1>()? {
        Some([last]) => Some(TenantId::parse(&last).map_err(|_| StateError::BadCursor)?),
        None => None,
    };
    let most = u32::try_from(page.fetch_limit()).unwrap_or(u32::MAX);
    let tenants = match only {
        Some(mut only) => {
            only.sort_unstable();
            only.dedup();
            only.retain(|tenant| after.as_ref().is_none_or(|after| tenant > after));
            only
        }
        None => state.tenants_with_usage(after.as_ref(), most).await?,
    };
    Ok(Paged::from_fetched(tenants, page, |tenant| {
        [tenant.to_string()]
    }))
}

fn add_up(rows: &[UsageRow]) -> UsageCounts {
    let mut total = UsageCounts {
        cost: Some(0.0),
        ..UsageCounts::default()
    };
    for row in rows {
        total.add(&row.counts);
    }
    total
}

impl UsageCounts {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.tool_calls += other.tool_calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cost = self.cost.zip(other.cost).map(|(one, more)| one + more);
    }
}

/// One row for each key, in order. Sums come by key and model, because prices are those of models.
fn sum_up(
    by: UsageGroup,
    sums: &[UsageSum],
    prices: &BTreeMap<String, ModelPrice>,
) -> Vec<UsageRow> {
    let mut rows: Vec<UsageRow> = Vec::new();
    for sum in sums {
        let counts = UsageCounts {
            runs: sum.runs,
            tool_calls: sum.tool_calls,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cached_tokens: sum.cached_tokens,
            cost: cost_of(sum, prices),
        };
        let key = match by {
            UsageGroup::Day => sum
                .key
                .parse()
                .map_or_else(|_| sum.key.clone(), |day| UsageDay(day).to_string()),
            UsageGroup::Tenant | UsageGroup::Model => sum.key.clone(),
        };
        match rows.last_mut() {
            Some(row) if row.key == key => row.counts.add(&counts),
            _ => rows.push(UsageRow { key, counts }),
        }
    }
    rows
}

/// What these tokens cost. None used costs nothing, whatever the model is.
fn cost_of(sum: &UsageSum, prices: &BTreeMap<String, ModelPrice>) -> Option<f64> {
    if sum.input_tokens == 0 && sum.output_tokens == 0 {
        return Some(0.0);
    }
    let price = prices.get(&sum.model)?;
    Some(price_tokens(
        price,
        sum.input_tokens,
        sum.cached_tokens,
        sum.output_tokens,
    ))
}

/// What the tokens of a run cost, if its model has a price.
pub(super) fn price_run(run: &Run, prices: &BTreeMap<String, ModelPrice>) -> Option<f64> {
    let used = run.usage?;
    let price = prices.get(run.model.as_deref()?)?;
    Some(price_tokens(
        price,
        used.input_tokens,
        used.cached_tokens,
        used.output_tokens,
    ))
}

fn price_tokens(price: &ModelPrice, input: u64, cached: u64, output: u64) -> f64 {
    let fresh = input.saturating_sub(cached);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a cost is not exact to the token beyond 2^53 of them"
    )]
    let tokens = [
        (fresh as f64, price.input),
        (cached as f64, price.cached),
        (output as f64, price.output),
    ];
    let cost: f64 = tokens.iter().map(|(count, price)| count * price).sum();
    cost / MILLION
}

fn parse_day(member: &'static str, text: &str) -> Result<UsageDay, Problem> {
    UsageDay::parse(text).ok_or_else(|| {
        Problem::invalid(format!("`{member}` must be a day such as `2026-11-18`"))
            .with_detail(member, "not a day")
    })
}

fn csv_reply(by: UsageGroup, rows: &[UsageRow]) -> Reply {
    let mut text = format!("{by},runs,toolCalls,inputTokens,outputTokens,cachedTokens,cost\r\n");
    for UsageRow { key, counts } in rows {
        let cost = counts.cost.map(|cost| cost.to_string()).unwrap_or_default();
        let line = format!(
            "{},{},{},{},{},{},{cost}\r\n",
            csv_field(key),
            counts.runs,
            counts.tool_calls,
            counts.input_tokens,
            counts.output_tokens,
            counts.cached_tokens,
        );
        text.push_str(&line);
    }
    let kind = HeaderValue::from_static("text/csv; charset=utf-8");
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
    Reply {
        status: 200,
        etag: None,
        body: ReplyBody::Bytes(headers, axum::body::Body::from(text)),
    }
}

/// A field in quotes where it needs them. One that a spreadsheet would take for a formula begins with an apostrophe.
fn csv_field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(key: &str, model: &str, input: u64, cached: u64, output: u64) -> UsageSum {
        UsageSum {
            key: key.into(),
            model: model.into(),
            runs: 1,
            tool_calls: 2,
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: output,
        }
    }

    fn prices() -> BTreeMap<String, ModelPrice> {
        let price = ModelPrice {
            input: 2.0,
            output: 10.0,
            cached: 0.5,
        };
        BTreeMap::from([("m".to_owned(), price)])
    }

    #[test]
    fn models_of_a_tenant_become_one_row_and_cached_tokens_cost_less() {
        let sums = [
            sum("acme", "m", 3_000_000, 1_000_000, 100_000),
            sum("acme", "m", 0, 0, 0),
            sum("beta", "other", 1, 0, 1),
        ];
        let rows = sum_up(UsageGroup::Tenant, &sums, &prices());
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].key.as_str(), rows[0].counts.runs), ("acme", 2));
        assert_eq!(rows[0].counts.cost, Some(4.0 + 0.5 + 1.0));
        assert_eq!(rows[1].counts.cost, None, "a model without a price");
    }

    #[test]
    fn a_day_is_a_date() {
        let day = UsageDay::parse("2026-11-18").unwrap();
        let sums = [sum(&day.0.to_string(), "m", 0, 0, 0)];
        let rows = sum_up(UsageGroup::Day, &sums, &prices());
        assert_eq!(rows[0].key, "2026-11-18");
        assert_eq!(rows[0].counts.cost, Some(0.0));
    }

    #[test]
    fn fields_are_quoted_and_are_no_formulas() {
        assert_eq!(csv_field("gpt-5"), "gpt-5");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_field("=1+1"), "'=1+1");
    }
}
