//! ListTransactions (66), versions 0-1: the transactional ids that this broker coordinates, all or those that pass the filters.
//!
//! A state that does not exist is told as such and lists nobody. Version 1 may ask for those that began longer ago than some
//! ms; one that began none counts as begun in 1970. COORDINATOR_LOAD_IN_PROGRESS and no list while any are being loaded.

use indexmap::IndexSet;
use kafka_protocol::messages::list_transactions_response::TransactionState;
use kafka_protocol::messages::{ListTransactionsRequest, ListTransactionsResponse, ProducerId, TransactionalId};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use crate::coordinator::transaction::{Filter, State};

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: ListTransactionsRequest,
) -> Result<ListTransactionsResponse, Close> {
    let named = &request.state_filters;
    let filter = Filter {
        producer_ids: request.producer_id_filters.iter().map(|id| id.0).collect(),
        states: (!named.is_empty()).then(|| named.iter().filter_map(|name| State::from_name(name)).collect()),
        longer_than_ms: Some(request.duration_filter).filter(|longer_ms| *longer_ms >= 0),
    };
    let response = ListTransactionsResponse::default();
    let listed = match ctx.services.transactions.list(&filter) {
        Ok(listed) => listed,
        Err(code) => return Ok(response.with_error_code(code.code())),
    };
    let unknown: IndexSet<_> = named.iter().filter(|name| State::from_name(name).is_none()).cloned().collect();
    let states = listed.iter().map(|one| {
        TransactionState::default()
            .with_transactional_id(TransactionalId(text(&one.transactional_id)))
            .with_producer_id(ProducerId(one.producer_id))
            .with_transaction_state(text(one.state.name()))
    });
    Ok(response.with_unknown_state_filters(unknown.into_iter().collect()).with_transaction_states(states.collect()))
}
