// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_CATCH_HPP
#define CAUSEWAY_TESTS_SUPPORT_CATCH_HPP

// One door to Catch2, version 2 or 3.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#endif  // CAUSEWAY_TESTS_SUPPORT_CATCH_HPP
