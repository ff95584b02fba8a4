// What std::terminate() says, instead of libstdc++'s own words: those need the demangler, which makes the agent 17 kB
// longer when sent. Source: the libstdc++ manual, "Verbose Terminate Handler".
#include <cstdlib>
#include <exception>

#include "base/log.h"

// NOLINTNEXTLINE(bugprone-reserved-identifier): the name by which libstdc++ calls it.
namespace __gnu_cxx {

void __verbose_terminate_handler() {  // NOLINT(bugprone-reserved-identifier)
  static bool is_second_time = false;
  if (!is_second_time && std::current_exception()) {
    is_second_time = true;
    tfdist::WriteLogLine("tfdist-agent: ends because nothing has caught an exception: ");
    try {
      throw;
    } catch (const std::exception& error) {
      tfdist::WriteLogLine(error.what());
    } catch (...) {
      tfdist::WriteLogLine("its type is unknown");
    }
    tfdist::WriteLogLine("\n");
  }
  std::abort();
}

}  // namespace __gnu_cxx
