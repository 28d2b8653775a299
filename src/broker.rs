//! Composition root: builds the parts, start order, stop order. Nobody imports it.
