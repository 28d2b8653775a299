//! What a row measures, and what is asked of it.

use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Less,
    More,
}

/// What `pass` and `goal` are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The ratio to the limit program's value in the same run.
    Limit,
    /// The value itself.
    Value,
}

/// One figure of a row. Its name carries the unit.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub better: Better,
    pub basis: Basis,
    /// What is asked.
    pub pass: Option<f64>,
    /// What may be claimed.
    pub goal: Option<f64>,
}

impl Figure {
    pub const fn less(name: &'static str) -> Figure {
        Figure { name, better: Better::Less, basis: Basis::Value, pass: None, goal: None }
    }

    pub const fn more(name: &'static str) -> Figure {
        Figure { better: Better::More, ..Figure::less(name) }
    }

    /// Asked as ratios to the limit.
    pub const fn of_limit(self, pass: f64, goal: f64) -> Figure {
        Figure { basis: Basis::Limit, pass: Some(pass), goal: Some(goal), ..self }
    }

    /// A ratio to the limit without a goal: to be ahead of Kafka is asked beside it.
    pub const fn pass_of_limit(self, pass: f64) -> Figure {
        Figure { basis: Basis::Limit, pass: Some(pass), ..self }
    }

    /// Asked in the figure's own unit.
    pub const fn of_value(self, pass: f64, goal: f64) -> Figure {
        Figure { basis: Basis::Value, pass: Some(pass), goal: Some(goal), ..self }
    }

    pub const fn goal_of_value(self, goal: f64) -> Figure {
        Figure { basis: Basis::Value, goal: Some(goal), ..self }
    }

    /// Whether `value` is as good as `asked`, or better.
    pub fn holds(&self, value: f64, asked: f64) -> bool {
        match self.better {
            Better::Less => value <= asked,
            Better::More => value >= asked,
        }
    }
}

/// What one run of a row on one server gave.
pub struct Sheet<'a> {
    figures: &'a [Figure],
    pub values: Vec<(&'static str, f64)>,
}

impl<'a> Sheet<'a> {
    pub fn new(figures: &'a [Figure]) -> Sheet<'a> {
        Sheet { figures, values: Vec::new() }
    }

    pub fn has(&self, name: &str) -> bool {
        self.figures.iter().any(|figure| figure.name == name)
    }

    pub fn add(&mut self, name: &'static str, value: f64) -> io::Result<()> {
        if !self.has(name) {
            return Err(io::Error::other(format!("the row has no figure {name}")));
        }
        self.values.push((name, value));
        Ok(())
    }
}
