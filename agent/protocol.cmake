tfdist_library(NAME tfdist_protocol
  SOURCES protocol.cc job_plan.cc events.cc first_cause.cc refusal.cc nesting.cc frame.cc job_state.cc job_tally.cc resolved_names.cc shared_folder.cc
    host_check.cc job_layout.cc log_pattern.cc task_look.cc file_fetch.cc
  DEPENDS tfdist::base nlohmann_json::nlohmann_json tfdist_deps::fmt)

tfdist_test(NAME protocol_test SOURCES log_pattern_test.cc protocol_test.cc DEPENDS tfdist::protocol)
