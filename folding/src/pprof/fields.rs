//! Numbers of the fields of `profile.proto`.

pub mod profile {
    pub const SAMPLE_TYPE: u32 = 1;
    pub const SAMPLE: u32 = 2;
    pub const MAPPING: u32 = 3;
    pub const LOCATION: u32 = 4;
    pub const FUNCTION: u32 = 5;
    pub const STRING: u32 = 6;
    pub const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

pub mod value_type {
    pub const TYPE: u32 = 1;
    pub const UNIT: u32 = 2;
}

pub mod sample {
    pub const LOCATION: u32 = 1;
    pub const VALUE: u32 = 2;
    pub const LABEL: u32 = 3;
}

pub mod label {
    pub const KEY: u32 = 1;
    pub const STR: u32 = 2;
    pub const NUM: u32 = 3;
}

pub mod mapping {
    pub const ID: u32 = 1;
    pub const LIMIT: u32 = 3;
    pub const FILENAME: u32 = 5;
    pub const BUILD_ID: u32 = 6;
    pub const HAS_FUNCTIONS: u32 = 7;
    pub const HAS_INLINES: u32 = 10;
}

pub mod location {
    pub const ID: u32 = 1;
    pub const MAPPING: u32 = 2;
    pub const ADDRESS: u32 = 3;
    pub const LINE: u32 = 4;
}

pub mod line {
    pub const FUNCTION: u32 = 1;
}

pub mod function {
    pub const ID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const SYSTEM_NAME: u32 = 3;
}
