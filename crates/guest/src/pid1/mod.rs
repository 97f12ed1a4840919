pub fn main() -> ! { loop {} }
