// The inputs of link_fuzz: one byte that says how the link is set up, then what a server sends to
// it, turn after turn (turn.h).
#pragma once

#include <cstdint>

#include "runtime/fuzz/turn.h"

namespace tfdist::runtime::fuzz {

// How it is set up.
inline constexpr uint8_t kValuesMask = 3;      // a WireFloat; float32 beyond them
inline constexpr uint8_t kCreates = 4;         // the variables; else it opens them
inline constexpr uint8_t kLittleUnderWay = 8;  // at a time
inline constexpr uint8_t kOtherThread = 16;    // the server has one

// Of a turn. What comes first happens first, and then the message arrives.
inline constexpr uint8_t kTakesNothing = 1;  // the connection, in this turn
inline constexpr uint8_t kBreaks = 2;        // the connection, and another one is made
inline constexpr uint8_t kAsksForMore = 4;   // the caller
// The header is about a message that was sent: its part says which, counted from the connection's
// first, again and again. Else a changed input is about none.
inline constexpr uint8_t kOfASentOne = 8;
// The payload is cut or filled to the length that belongs to that message.
inline constexpr uint8_t kFits = 16;

}  // namespace tfdist::runtime::fuzz
