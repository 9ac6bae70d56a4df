# Debian packages by CPack, one a component: saccade (program, decoder, starter, units), libsaccade0.1 (named after the
# SOVERSION), libsaccade-dev, saccade-lab, and python3-saccade where the Python package is built for the system's Python.
# `./dev release` makes them (docs/packages.md). Libraries that the files are linked with are looked up in the system's
# packages; those that are loaded late are the group `run` of tools/packages/debian.txt.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME saccade)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Saccade authors <authors@saccade.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Text-image retrieval: finds images by text, by images, and by both")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION graphics)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL saccade library development)
if(TARGET saccade-lab)
  list(APPEND CPACK_COMPONENTS_ALL lab)
endif()
if(TARGET saccade_python)
  list(APPEND CPACK_COMPONENTS_ALL python3)
endif()

file(STRINGS ${PROJECT_SOURCE_DIR}/tools/packages/debian.txt lines)
set(late "")
set(group "")
foreach(line ${lines})
  if(line MATCHES "^\\[(.*)\\]$")
    set(group ${CMAKE_MATCH_1})
  elseif(group STREQUAL "run" AND line MATCHES "^[a-z0-9]")
    string(REPLACE "|" " | " line ${line})
    list(APPEND late ${line})
  endif()
endforeach()
list(REMOVE_DUPLICATES late)
list(JOIN late ", " late)

set(of_this_version "(= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_SACCADE_PACKAGE_NAME saccade)
set(CPACK_DEBIAN_SACCADE_PACKAGE_DEPENDS "${late}, passwd")
set(CPACK_DEBIAN_SACCADE_PACKAGE_SUGGESTS "ffmpeg, saccade-lab")
set(CPACK_COMPONENT_SACCADE_DESCRIPTION
    "Program, server and starter model.\nIndexes folders of images, searches them by text, by images or by both, and serves a search page and an API.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libsaccade${SACCADE_SOVERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "saccade ${of_this_version}")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Shared library.\nThe library behind the program, for programs in C++20.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsaccade-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libsaccade${SACCADE_SOVERSION} ${of_this_version}, libexpected-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, static library, CMake package and pkg-config file.")

set(CPACK_DEBIAN_LAB_PACKAGE_NAME saccade-lab)
set(CPACK_DEBIAN_LAB_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LAB_PACKAGE_DEPENDS "saccade ${of_this_version}, libopenblas0-pthread")
set(CPACK_COMPONENT_LAB_DESCRIPTION
    "Laboratory.\nDatasets, evaluation with confidence intervals, training, image generation and reports.")

set(CPACK_DEBIAN_PYTHON3_PACKAGE_NAME python3-saccade)
set(CPACK_DEBIAN_PYTHON3_PACKAGE_SECTION python)
if(TARGET saccade_python)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
  math(EXPR next "${Python_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON3_PACKAGE_DEPENDS "libsaccade${SACCADE_SOVERSION} ${of_this_version}, python3-numpy, \
python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next})")
endif()
set(CPACK_COMPONENT_PYTHON3_DESCRIPTION "Python package.\nimport saccade: the library's functions on NumPy arrays.")

# Maintainer scripts: the user that the unit runs as; the loader's cache.
set(scripts ${PROJECT_BINARY_DIR}/package)
file(WRITE ${scripts}/postinst [[
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  if ! getent passwd saccade >/dev/null; then
    useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin saccade
  fi
  if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
fi
]])
file(WRITE ${scripts}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_SACCADE_PACKAGE_CONTROL_EXTRA ${scripts}/postinst)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${scripts}/triggers)

# Licence of each package, as Debian's tools look for it.
file(READ ${PROJECT_SOURCE_DIR}/NOTICE notice)
file(WRITE ${scripts}/copyright "${notice}\nThe licence's text: /usr/share/common-licenses/Apache-2.0\n")
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  install(FILES ${scripts}/copyright DESTINATION share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME} COMPONENT ${component}
          EXCLUDE_FROM_ALL)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION share/doc/saccade COMPONENT saccade)

include(CPack)
