// Expects a tfdist::Error whose text holds the given words.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace tfdist::runtime::testing {

template <typename Call>
void ExpectError(Call call, Phase phase, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "no error, expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(PhaseName(error.phase()), PhaseName(phase));
    EXPECT_NE(error.cause().find(words), std::string::npos) << error.cause();
  }
}

}  // namespace tfdist::runtime::testing
