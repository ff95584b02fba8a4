#include "runtime/ps/tables/table_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/ps/tables/first_rows.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;
using Words = std::vector<uint32_t>;

const RowInitializer kZeros = UniformRows(0, 0, 0);
const TablePart kA = {"a", 4, 2, 0, 1, kZeros};
const TablePart kB = {"b", 3, 1, 1, 3, kZeros};
const Optimizer kSgd({.learning_rate = 1});

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

// Adds nothing to a table where it is refused.
class TableStoreTest : public ::testing::Test {
 protected:
  void Push(const std::vector<RowCounts>& counts, const Words& payload) {
    PushSteps steps;
    store_.Push(store_.Read(counts, payload), steps);
  }
  std::vector<float> Rows(const std::vector<RowCounts>& counts, const Words& payload) {
    const auto sections = store_.Read(counts, payload);
    std::vector<float> rows(TableStore::FloatsPulled(sections));
    store_.Pull(sections, rows.data());
    return rows;
  }
  void ExpectRefused(const std::vector<RowCounts>& counts, const Words& payload,
                     const std::string& words) {
    ExpectError([&] { Push(counts, payload); }, Phase::kRun, words);
    EXPECT_EQ(Rows({{0, 0, 4}, {1, 0, 3}}, {0, 1, 2, 3, 0, 1, 2}), std::vector<float>(11));
  }

  TableStore store_{{kA, kB}, kSgd};
};

TEST_F(TableStoreTest, PushesAndPullsRowsOfSeveralTablesInOneMessage) {
  Push({{0, 1, 0}, {1, 2, 0}}, {3, Bits(1), Bits(2), 0, 2, Bits(3), Bits(4)});
  EXPECT_EQ(Rows({{0, 0, 2}, {1, 0, 1}}, {3, 0, 2}), (std::vector<float>{-1, -2, 0, 0, -4}));
}

std::vector<float> FirstRowsOf(const TablePart& part) {
  std::vector<float> values(size_t{part.rows} * part.width);
  FillFirstRows(part, values);
  return values;
}

// Rows of a table that is as it was made. Nothing is written behind the last.
void ExpectFirstRows(TableStore& store, const TablePart& part, const Words& rows) {
  const std::vector<float> first = FirstRowsOf(part);
  std::vector<float> expected;
  for (const uint32_t row : rows) {
    const auto begin = first.begin() + static_cast<ptrdiff_t>(size_t{row} * part.width);
    expected.insert(expected.end(), begin, begin + part.width);
  }
  expected.push_back(7);
  std::vector<float> values(expected.size(), 7);
  store.Pull(store.Read({{0, 0, static_cast<uint32_t>(rows.size())}}, rows), values.data());
  EXPECT_EQ(values, expected) << "width " << part.width;
}

// Copies of rows are compiled for some widths, and for any.
TEST(TableStore, GathersRowsOfAllWidths) {
  for (const uint32_t width : {1U, 3U, 8U, 15U, 16U, 17U, 32U, 64U, 65U, 300U}) {
    constexpr uint32_t kRows = 100;
    const TablePart part = {"t", kRows, width, 0, 1, UniformRows(-1, 1, width)};
    TableStore store({part}, kSgd);
    Words rows(kRows);
    std::iota(rows.begin(), rows.end(), 0U);
    ExpectFirstRows(store, part, rows);
    std::reverse(rows.begin(), rows.end());
    ExpectFirstRows(store, part, rows);
    ExpectFirstRows(store, part, {5, 99, 5, 0, 42});
    for (const uint32_t row : rows) ExpectFirstRows(store, part, {row});
  }
}

TEST_F(TableStoreTest, RefusesUnknownTablesAndRows) {
  ExpectRefused({{2, 1, 0}}, {0, Bits(1)}, "no such table");
  ExpectRefused({{0, 1, 0}}, {4, Bits(1), Bits(1)}, "a [4,2]: no row 4 here");
  ExpectRefused({{0, 0, 1}}, {0xffffffff}, "no row 4294967295 here");
}

TEST_F(TableStoreTest, RefusesAMessageAsAWhole) {
  ExpectRefused({{0, 1, 0}, {1, 1, 0}}, {0, Bits(1), Bits(1), 3, Bits(1)}, "b [3,1]");
}

TEST_F(TableStoreTest, RefusesATableTwice) {
  ExpectRefused({{1, 1, 0}, {1, 1, 0}}, {0, Bits(1), 1, Bits(1)}, "a table twice");
  ExpectRefused({{1, 1, 0}, {0, 1, 0}}, {0, Bits(1), 1, Bits(1), Bits(1)}, "out of order");
}

TEST_F(TableStoreTest, RefusesAnotherWidth) {
  ExpectRefused({{0, 1, 0}}, {0, Bits(1)}, "8 bytes of rows where 12 belong");
  ExpectRefused({{1, 1, 0}}, {0, Bits(1), Bits(1)}, "12 bytes of rows where 8 belong");
}

TEST_F(TableStoreTest, RefusesCountsThatNoMessageCanHold) {
  constexpr uint32_t kMost = 0xffffffff;
  ExpectRefused({{0, kMost, kMost}, {1, kMost, kMost}}, {}, "0 bytes of rows where");
}

TEST_F(TableStoreTest, RefusesAnAnswerLargerThanAMessage) {
  const uint32_t rows = kMaxBlockBytes / 8 + 1;
  ExpectRefused({{0, 0, rows}}, Words(rows), "more rows wanted than an answer holds");
}

TEST_F(TableStoreTest, RefusesNanAndNamesTheId) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectRefused({{1, 2, 0}}, {0, 2, Bits(1), Bits(nan)},
                "b: value 0 of the gradient for id 7 is nan");
  ExpectRefused({{0, 1, 0}}, {0, Bits(1), Bits(-std::numeric_limits<float>::infinity())},
                "a: value 1 of the gradient for id 0 is -inf");
}

TEST(TableStore, RefusesTablesThatCannotBe) {
  const auto expect = [](TablePart part, const std::string& words) {
    ExpectError([&] { TableStore({part}, kSgd); }, Phase::kRun, words);
  };
  expect({"t", 0, 2, 0, 1, kZeros}, "without values");
  expect({"t", 2, 0, 0, 1, kZeros}, "without values");
  expect({"t", 1, kMaxTableWidth + 1, 0, 1, kZeros}, "too wide");
  expect({"t", 2, 2, 0xffffffff, 1, kZeros}, "no such part of a table");
  expect({"t", 0xffffffff, kMaxTableWidth, 0, 1, kZeros}, "no memory for");
  expect({"t", 2, 2, 0, 1, UniformRows(2, 1, 0)}, "below the least");
  ExpectError([] { TableStore({kA, kA}, kSgd); }, Phase::kRun, "two of that name");
}

TEST(TableStore, NamesTheTableThatDiffers) {
  const TableStore store({kA, kB}, kSgd);
  EXPECT_NO_THROW(store.ExpectSame({kA, kB}));
  TablePart other = kB;
  other.initial.seed = 5;  // those that are there have their rows
  EXPECT_NO_THROW(store.ExpectSame({kA, other}));
  other.rows = 4;
  ExpectError(
      [&] {
        store.ExpectSame({kA, other});
      },
      Phase::kRun, "b [4,1] from row 1 in steps of 3: the table here is b [3,1]");
  ExpectError([&] { store.ExpectSame({kA}); }, Phase::kRun, "1 parts of tables asked for, 2");
}

// Two parts of one push take one step, as a whole push does.
TEST(TableStore, APushInPartsIsOneStepOfAdam) {
  const Optimizer adam({.kind = OptimizerKind::kAdam, .learning_rate = 0.1F, .lazy = true});
  TableStore whole({kA}, adam);
  TableStore parts({kA}, adam);
  for (int push = 0; push < 3; ++push) {
    PushSteps steps;
    whole.Push(whole.Read({{0, 2, 0}}, Words{0, 1, Bits(1), Bits(2), Bits(3), Bits(4)}), steps);
    PushSteps shared;
    parts.Push(parts.Read({{0, 1, 0}}, Words{0, Bits(1), Bits(2)}), shared);
    parts.Push(parts.Read({{0, 1, 0}}, Words{1, Bits(3), Bits(4)}), shared);
  }
  std::vector<float> one(4);
  std::vector<float> other(4);
  whole.Pull(whole.Read({{0, 0, 2}}, Words{0, 1}), one.data());
  parts.Pull(parts.Read({{0, 0, 2}}, Words{0, 1}), other.data());
  EXPECT_EQ(one, other);
  EXPECT_NE(one[0], 0);
}

const Optimizer kAdam({.kind = OptimizerKind::kAdam, .learning_rate = 0.1F});

// Rows of kA of which two pushes have named the first.
class TableThatMoves : public ::testing::Test {
 protected:
  TableThatMoves() {
    for (int push = 0; push < 2; ++push) PushToFirstRow(store_);
  }

  static void Push(TableStore& store, PushSteps& steps, const std::vector<RowCounts>& counts,
                   const Words& payload) {
    store.Push(store.Read(counts, payload), steps);
  }
  static void PushToFirstRow(TableStore& store) {
    PushSteps steps;
    Push(store, steps, {{0, 1, 0, true}}, {0, Bits(1), Bits(-2)});
  }
  static std::vector<float> AllRows(TableStore& store) {
    std::vector<float> rows(8);
    store.Pull(store.Read({{0, 0, 4}}, Words{0, 1, 2, 3}), rows.data());
    return rows;
  }

  TableStore store_{{kA, kB}, kAdam};
};

TEST_F(TableThatMoves, MovesWithAPushOfNoRowAndNotWithAPull) {
  const std::vector<float> before = AllRows(store_);
  PushSteps steps;
  Push(store_, steps, {{0, 0, 1}}, {0});
  EXPECT_EQ(AllRows(store_), before);
  Push(store_, steps, {{0, 0, 1, true}}, {0});
  const std::vector<float> after = AllRows(store_);
  EXPECT_LT(after[0], before[0]);
  EXPECT_GT(after[1], before[1]);
  EXPECT_EQ(after[2], 0);
}

TEST_F(TableThatMoves, TakesAPushInPiecesAsOneStepAndMovesWithTheLast) {
  TableStore whole({kA, kB}, kAdam);
  PushToFirstRow(whole);
  PushToFirstRow(whole);
  const std::vector<float> before = AllRows(store_);
  for (int push = 0; push < 3; ++push) {
    PushSteps one;
    Push(whole, one, {{0, 2, 0, true}}, {1, 3, Bits(1), Bits(2), Bits(3), Bits(4)});
    PushSteps steps;
    Push(store_, steps, {{0, 1, 0}, {1, 1, 0, true}}, {1, Bits(1), Bits(2), 0, Bits(9)});
    Push(store_, steps, {{0, 1, 0}}, {3, Bits(3), Bits(4)});
    if (push == 0) {
      EXPECT_EQ(AllRows(store_), before);
    }
    Push(store_, steps, {{0, 0, 0, true}}, {});
    EXPECT_EQ(AllRows(store_), AllRows(whole));
  }
}

// Each of the two decays and moves all rows once, by its own step.
TEST_F(TableThatMoves, TakesTwoPushesWhoseMessagesMixAsTwoSteps) {
  float m = 0;
  float v = 0;
  float value = 0;
  OptimizerState state = kAdam.initial_state();
  const VariableRange row = {{&value, 1}, {std::span(&m, 1), std::span(&v, 1)}};
  const uint32_t first = 0;
  const auto grow = [&](const float& gradient) {
    kAdam.GrowRows(row, 0, {1, {&first, 1}, {&gradient, 1}});
  };
  const OptimizerStep one = kAdam.NextStep(state);
  kAdam.DecayAllRows(row);
  grow(1);
  const OptimizerStep two = kAdam.NextStep(state);
  kAdam.DecayAllRows(row);
  grow(5);
  kAdam.MoveAllRows(two, row);
  kAdam.MoveAllRows(one, row);

  PushSteps ones;
  PushSteps twos;
  Push(store_, ones, {{1, 1, 0}}, {0, Bits(1)});
  Push(store_, twos, {{1, 1, 0, true}}, {0, Bits(5)});
  Push(store_, ones, {{1, 1, 0, true}}, {1, Bits(1)});
  float found = 0;
  store_.Pull(store_.Read({{1, 0, 1}}, Words{0}), &found);
  EXPECT_EQ(found, value);
  EXPECT_LT(value, 0);
}

// Neither decays nor moves for it: the message that follows is the first of its push.
TEST_F(TableThatMoves, IsAsItWasAfterAMessageThatIsRefused) {
  TableStore same({kA, kB}, kAdam);
  for (int push = 0; push < 2; ++push) PushToFirstRow(same);
  PushSteps steps;
  EXPECT_THROW(Push(store_, steps, {{0, 1, 0}}, {0, Bits(kNotANumber), Bits(1)}), Error);
  Push(store_, steps, {{0, 1, 0, true}}, {1, Bits(1), Bits(2)});
  PushSteps others;
  Push(same, others, {{0, 1, 0, true}}, {1, Bits(1), Bits(2)});
  EXPECT_EQ(AllRows(store_), AllRows(same));
}

TEST_F(TableThatMoves, DoesNotMoveWhenTheLastMessageIsRefused) {
  const std::vector<float> before = AllRows(store_);
  PushSteps steps;
  Push(store_, steps, {{0, 1, 0}}, {0, Bits(1), Bits(1)});
  EXPECT_THROW(Push(store_, steps, {{0, 1, 0, true}}, {1, Bits(kNotANumber), Bits(1)}), Error);
  EXPECT_EQ(AllRows(store_), before);
}

TEST_F(TableThatMoves, MovesByAMeanOfPushesThatNameNoRow) {
  const std::vector<float> before = AllRows(store_);
  store_.Sum(store_.Read({{0, 0, 1}}, Words{0}));  // a pull
  store_.ApplyMeans();
  EXPECT_EQ(AllRows(store_), before);
  for (int push = 0; push < 2; ++push) store_.Sum(store_.Read({{0, 0, 0, true}}, {}));
  store_.ApplyMeans();
  const std::vector<float> after = AllRows(store_);
  EXPECT_LT(after[0], before[0]);
  store_.ApplyMeans();  // a step without a push to it
  EXPECT_EQ(AllRows(store_), after);
}

// A push of no row is none for an optimizer that changes the named rows.
TEST(TableStore, TakesNoStepOfLazyAdamForAPushOfNoRow) {
  const Optimizer lazy({.kind = OptimizerKind::kAdam, .learning_rate = 0.1F, .lazy = true});
  EXPECT_FALSE(TableStore({kA}, lazy).moves_all_rows());
  const auto after = [&](int pushes_of_none) {
    TableStore store({kA}, lazy);
    for (int i = 0; i < pushes_of_none; ++i) {
      PushSteps steps;
      store.Push(store.Read({{0, 0, 0, true}}, {}), steps);
    }
    PushSteps steps;
    store.Push(store.Read({{0, 1, 0, true}}, Words{0, Bits(1), Bits(2)}), steps);
    std::vector<float> row(2);
    store.Pull(store.Read({{0, 0, 1}}, Words{0}), row.data());
    return row;
  };
  EXPECT_EQ(after(3), after(0));
}

}  // namespace
}  // namespace tfdist::runtime
