"""Why a plan takes what it takes, and what makes two plans differ."""
