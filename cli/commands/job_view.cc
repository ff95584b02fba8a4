#include "cli/commands/job_view.h"

#include "cli/deploy/connector.h"

namespace tfdist::cli {

using namespace std::chrono_literals;

JobView LookAt(const JobRecord& record,
               const std::function<void(const protocol::Event&)>& on_event) {
  const TimePoint deadline = SystemClock().Now() + 30s;
  Attached attached = Attach(record, 0, deadline);
  JobView view;
  view.live = attached.hello.serving == "agent";
  const uint64_t id =
      attached.link->Send(protocol::type::kEvents, {{"from", 1}, {"follow", false}});
  while (true) {
    const auto message = attached.link->Receive(deadline);
    if (!message) {
      throw Error(Phase::kControl, "no answer for 30 s", "try again; the job goes on meanwhile")
          .WithHost(record.hosts[0].name);
    }
    if (message->id != id) continue;
    protocol::ThrowIfError(*message);
    if (message->type == protocol::type::kEnd) return view;
    for (const auto& event : EventsOf(*message)) {
      view.state.Apply(event);
      if (on_event) on_event(event);
    }
  }
}

}  // namespace tfdist::cli
