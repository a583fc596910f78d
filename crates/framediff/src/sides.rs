//! What is compared: the profiles of both sides.

/// One side: its sessions, each of one or more profiles.
pub struct Side {
    pub name: String,
    pub sessions: Vec<Vec<SideProfile>>,
    pub event: Option<String>,
    pub unit: String,
}

/// One profile. Frames and threads are keys of [`crate::FrameNames`].
#[derive(Default)]
pub struct SideProfile {
    /// Of each node, which are depth-first: the node above it, or `NONE`, and its frame's key and object.
    pub parent: Vec<u32>,
    pub key: Vec<u32>,
    pub object: Vec<u32>,
    /// The frame was inlined.
    pub inlined: Vec<bool>,
    pub stacks: Vec<StackCost>,
    pub slices: Vec<SliceCost>,
    /// Slices from the first to the last.
    pub slice_count: u32,
    pub queries: f64,
    /// CPU us per unit of weight.
    pub us: f64,
    pub samples: u64,
}

/// What ends at a node (`NONE`: at none) on a thread of this name.
#[derive(Clone, Copy)]
pub struct StackCost {
    pub thread: u32,
    pub node: u32,
    pub weight: f64,
    pub samples: u64,
}

/// What a stack weighs in a slice.
#[derive(Clone, Copy)]
pub struct SliceCost {
    pub slice: u32,
    pub stack: u32,
    pub weight: f64,
}

pub const NONE: u32 = u32::MAX;

impl Side {
    pub fn profiles(&self) -> impl Iterator<Item = &SideProfile> {
        self.sessions.iter().flatten()
    }

    pub fn samples(&self) -> u64 {
        self.profiles().map(|profile| profile.samples).sum()
    }

    pub fn queries(&self) -> f64 {
        self.profiles().map(|profile| profile.queries).sum()
    }
}
