// A server where memory ends.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ps/service/service.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {
namespace {

// As long as it lives, this process gets no more than so much beyond what it has.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t further_bytes) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;  // of its address space: proc(5)
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + further_bytes;
    set_ = pages > 0 && setrlimit(RLIMIT_AS, &limit) == 0;
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  [[nodiscard]] bool set() const { return set_; }

 private:
  rlimit before_{};
  bool set_ = false;
};

Request CreateOf(std::vector<TensorSpec> variables) {
  Request request;
  request.operation = Operation::kCreate;
  request.client = 1;
  request.optimizer = "sgd:learning_rate=0.5";
  request.update_mode = "async";
  request.variables = std::move(variables);
  return request;
}

// The chief's.
Reply Ask(Service& service, const Request& request) {
  std::vector<Outgoing> replies;
  service.Handle({"route", "master:0"}, {Encode(request), {}}, replies);
  EXPECT_EQ(replies.size(), 1U);
  Reply reply;
  if (!replies.empty()) Decode(replies.front().message.header.to_string_view(), reply);
  return reply;
}

TEST(ServiceMemory, RefusesVariablesThatDoNotFitIntoMemoryAndGoesOn) {
  if (TFDIST_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer has its own way with memory";
  // What is known of their blocks alone is 4 GiB; the values come later.
  std::vector<TensorSpec> many(16'000, {"", {1U << 28}});
  for (size_t i = 0; i < many.size(); ++i) many[i].name = std::to_string(i);
  const Request too_many = CreateOf(std::move(many));
  Service service({1, {"master:0"}, "master:0"});
  Request hello;
  hello.operation = Operation::kHello;
  hello.client = 1;
  hello.task = "master:0";
  ASSERT_EQ(Ask(service, hello).status, Status::kDone);
  {
    const MemoryLimit limit(size_t{64} << 20);
    ASSERT_TRUE(limit.set());
    const Reply reply = Ask(service, too_many);
    EXPECT_EQ(reply.status, Status::kRefused);
    EXPECT_EQ(reply.error, "this server has not enough memory for these variables");
  }
  EXPECT_EQ(Ask(service, CreateOf({{"w", {2}}})).status, Status::kValuesWanted);
}

}  // namespace
}  // namespace tfdist::runtime
