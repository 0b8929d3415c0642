// Loops that count are compiled for wider instructions, too, and chosen when the library loads.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define CDEC_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CDEC_WIDE
#endif
