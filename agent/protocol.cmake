tfdist_library(NAME tfdist_protocol
  SOURCES protocol.cc nesting.cc frame.cc job_state.cc
  DEPENDS tfdist::base nlohmann_json::nlohmann_json fmt::fmt-header-only)

tfdist_test(NAME protocol_test SOURCES protocol_test.cc DEPENDS tfdist::protocol)
