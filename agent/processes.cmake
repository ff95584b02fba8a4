# Keeper, holder, log and census: what stands between the agent and the tasks. processes.md explains it.
tfdist_library(NAME tfdist_processes
  SOURCES
    census/census.cc
    census/kill.cc
    census/left_file.cc
    census/port_owner.cc
    census/process_table.cc
    census/tcp_table.cc
    container/container_processes.cc
    container/apptainer.cc
    container/sif.cc
    container/container_run.cc
    container/containers.cc
    container/engine.cc
    container/gpu_support.cc
    container/image_load.cc
    holder/client_watch.cc
    holder/container_of_task.cc
    holder/exec_search.cc
    holder/holder.cc
    holder/holder_loop.cc
    holder/in_task_main.cc
    holder/memory_watch.cc
    holder/task_output.cc
    holder/task_process.cc
    keeper/keeper.cc
    keeper/keeper_link.cc
    keeper/keeper_loop.cc
    log/line_filter.cc
    log/line_search.cc
    log/log_copy.cc
    log/log_cursor.cc
    log/log_files.cc
    log/log_reader.cc
    log/log_writer.cc
    log/unfinished_lines.cc
    process/command.cc
    process/handover.cc
    process/note.cc
    process/record.cc
    process/run_folder.cc
    process/run_records.cc
    process/signals.cc
    process/spawn.cc
    process/wire.cc
    slot/folder_now.cc
    slot/mounts.cc
    slot/run_folders.cc
    slot/slot_census.cc
    slot/slot_folder.cc
    slot/task_files.cc
    slot/this_machine.cc
  DEPENDS tfdist::base tfdist::wire tfdist_deps::zlib)

tfdist_test(NAME log_test SOURCES log/log_test.cc DEPENDS tfdist::processes)
tfdist_test(NAME run_folder_test SOURCES process/run_folder_test.cc slot/run_folders_test.cc slot/slot_folder_test.cc
  DEPENDS tfdist::processes)

# Real keepers and holders, with a stand-in for the agent.
tfdist_static_executable(NAME process_test_agent
  SOURCES keeper/testing/process_test_agent.cc
  DEPENDS tfdist::processes)
tfdist_library(NAME tfdist_slot_fixture
  SOURCES keeper/testing/slot_fixture.cc
  DEPENDS tfdist::processes GTest::gtest)
add_dependencies(tfdist_slot_fixture process_test_agent)
tfdist_test(NAME container_test SOURCES container/container_run_test.cc container/containers_test.cc container/container_processes_test.cc container/image_load_test.cc DEPENDS tfdist::slot_fixture)
tfdist_test(NAME census_test SOURCES census/census_test.cc DEPENDS tfdist::slot_fixture)
tfdist_test(NAME holder_test SOURCES holder/holder_test.cc holder/container_of_task_test.cc DEPENDS tfdist::slot_fixture)
add_test(NAME holder_launches
  COMMAND holder_test --gtest_filter=HolderTest.NoExitIsLostInManyQuickLaunches)
set_tests_properties(holder_launches PROPERTIES LABELS long ENVIRONMENT TFDIST_TEST_LAUNCHES=100000)
tfdist_time_limit(holder_launches 3600)
tfdist_test(NAME keeper_test SOURCES keeper/keeper_test.cc DEPENDS tfdist::slot_fixture)
