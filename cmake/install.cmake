# `cmake --install`, and the packages of scripts/package: the command with its manual page and completions, the runtime
# in libexec/ where the command looks for it, pages and cluster files. The agent is inside the command.

set(pages "${CMAKE_BINARY_DIR}/pages")
file(MAKE_DIRECTORY "${pages}")
set(page_files "${pages}/tfdist.1.gz")
# Packages have manual pages compressed, and -n leaves the time out: same sources, same bytes.
add_custom_command(OUTPUT "${pages}/tfdist.1.gz"
  COMMAND sh -c "$<TARGET_FILE:tfdist> __man | gzip -9n > '${pages}/tfdist.1.gz'" DEPENDS tfdist VERBATIM)
install(FILES "${pages}/tfdist.1.gz" DESTINATION share/man/man1)

# tfdist_install_completion(SHELL PATH): where the shell's own package looks for it.
function(tfdist_install_completion shell path)
  set(script "${pages}/completion.${shell}")
  add_custom_command(OUTPUT "${script}"
    COMMAND sh -c "$<TARGET_FILE:tfdist> completion ${shell} > '${script}'" DEPENDS tfdist VERBATIM)
  set(page_files ${page_files} "${script}" PARENT_SCOPE)
  get_filename_component(folder "${path}" DIRECTORY)
  get_filename_component(name "${path}" NAME)
  install(FILES "${script}" DESTINATION "share/${folder}" RENAME "${name}")
endfunction()
tfdist_install_completion(bash bash-completion/completions/tfdist)
tfdist_install_completion(zsh zsh/vendor-completions/_tfdist)
tfdist_install_completion(fish fish/vendor_completions.d/tfdist.fish)

add_custom_target(installed_pages DEPENDS ${page_files})

install(TARGETS tfdist DESTINATION bin)
install(TARGETS tfdist-runtime DESTINATION libexec/tfdist)
if(TFDIST_WITH_CUDA)
  install(TARGETS tfdist-runtime-cuda DESTINATION libexec/tfdist)
  add_dependencies(installed_pages tfdist-runtime-cuda)
endif()
install(FILES README.md CHANGELOG.md DESTINATION share/doc/tfdist)
install(DIRECTORY docs configs DESTINATION share/doc/tfdist)

set(CPACK_PACKAGE_NAME tfdist)
set(CPACK_PACKAGE_VENDOR "tfdist")
set(CPACK_PACKAGE_CONTACT "the tfdist maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs distributed training jobs on machines reached by SSH")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# `ssh -G`, and for `tfdist shell` ssh itself.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openssh-client")
# A tarball unpacks to tfdist-VERSION-Linux/bin/tfdist, wherever somebody puts it.
set(CPACK_GENERATOR DEB TGZ)
include(CPack)
