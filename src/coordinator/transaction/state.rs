//! What a transactional id can be doing.

/// Kafka's `TransactionState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// A producer has its id and epoch, and has begun nothing.
    Empty,
    Ongoing,
    /// It is decided; markers are on their way.
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
    /// Expired, on its way out.
    Dead,
    /// The epoch is raised to fence the producer. In memory only, and only as what is under way.
    PrepareEpochFence,
}

impl State {
    pub const ALL: [State; 8] = [
        State::Empty,
        State::Ongoing,
        State::PrepareCommit,
        State::PrepareAbort,
        State::CompleteCommit,
        State::CompleteAbort,
        State::Dead,
        State::PrepareEpochFence,
    ];

    /// As in a record.
    pub fn id(self) -> i8 {
        self as i8
    }

    /// Of a record, where two states never are.
    pub fn of_record(id: i8) -> Option<State> {
        let state = State::ALL.get(usize::try_from(id).ok()?).copied();
        state.filter(|state| !matches!(state, State::Dead | State::PrepareEpochFence))
    }

    /// As DescribeTransactions and ListTransactions say it.
    pub fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::Ongoing => "Ongoing",
            State::PrepareCommit => "PrepareCommit",
            State::PrepareAbort => "PrepareAbort",
            State::CompleteCommit => "CompleteCommit",
            State::CompleteAbort => "CompleteAbort",
            State::Dead => "Dead",
            State::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    pub fn from_name(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// No transaction is open, none is being ended.
    pub fn is_idle(self) -> bool {
        matches!(self, State::Empty | State::CompleteCommit | State::CompleteAbort)
    }

    /// It is decided and not every leader knows.
    pub fn is_prepared(self) -> bool {
        matches!(self, State::PrepareCommit | State::PrepareAbort)
    }
}
