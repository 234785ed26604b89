# SPDX-License-Identifier: Apache-2.0
# Writes the page as a C++ file: cmake -D PAGE=page.html -D OUT=page_html.cpp -P embed.cmake

file(READ "${PAGE}" page)
string(FIND "${page}" ")page\"" end)
if(NOT end EQUAL -1)
  message(FATAL_ERROR "${PAGE} must not contain )page\"")
endif()
file(WRITE "${OUT}" "#include <string_view>\n\nnamespace app {\n\nextern const std::string_view page_html;\n"
                    "const std::string_view page_html = R\"page(${page})page\";\n\n}  // namespace app\n")
